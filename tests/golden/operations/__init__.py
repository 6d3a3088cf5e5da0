"""The cases of each family of operations, with one module for each header autograd/functions/FAMILY.h."""
FAMILIES = ["attention", "distance", "dropout", "einsum", "elementwise", "index", "linear", "loss", "norm",
            "recurrent", "reduce", "shape", "sort", "spatial"]
