//===- Pipeline.cpp - the only place that states the order of passes --------===//

#include "passes/Passes.h"
