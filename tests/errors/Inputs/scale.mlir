fa.variant @scale scale(1.0e39)
