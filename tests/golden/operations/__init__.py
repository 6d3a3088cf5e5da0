"""The cases of each family of operations: one module for each header autograd/ops_FAMILY.h."""
FAMILIES = ["dropout", "elementwise", "linear", "loss", "norm", "reduce", "shape", "spatial"]
