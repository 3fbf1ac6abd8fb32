// An instance, written by hand.
func.func @instance(%q: tensor<?x?x?x16xbf16>, %k: tensor<?x?x?x16xbf16>, %v: tensor<?x?x?x24xbf16>, %t: tensor<?xf32>)
    -> (tensor<?x?x?x24xbf16>, tensor<?x?x?xf32>) {
  %o, %l = fa.attention (%q, %k, %v) layout(bhsd) group(2) captures(%slopes = %t : tensor<?xf32>) causal alibi(%slopes)
      : (tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>, tensor<?x?x?x24xbf16>)
        -> (tensor<?x?x?x24xbf16>, tensor<?x?x?xf32>)
  return %o, %l : tensor<?x?x?x24xbf16>, tensor<?x?x?xf32>
}

func.func @swapped(%k: tensor<?x?x?x16xf32>, %q: tensor<?x?x?x16xf32>) -> (tensor<?x?x?x16xf32>, tensor<?x?x?xf32>) {
  %o, %l = fa.attention (%q, %k, %k) layout(bhsd) group(1)
      : (tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>)
        -> (tensor<?x?x?x16xf32>, tensor<?x?x?xf32>)
  return %o, %l : tensor<?x?x?x16xf32>, tensor<?x?x?xf32>
}
