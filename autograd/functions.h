// The differentiable operations. Names and semantics are PyTorch's. einsum (functions/einsum.h) and distances of
// vectors (functions/distance.h) are built from these operations. Recurrent layers use functions/recurrent.h.
#pragma once

#include <tandem/autograd/functions/attention.h>
#include <tandem/autograd/functions/convolution.h>
#include <tandem/autograd/functions/dropout.h>
#include <tandem/autograd/functions/elementwise.h>
#include <tandem/autograd/functions/in_place.h>
#include <tandem/autograd/functions/index.h>
#include <tandem/autograd/functions/linear.h>
#include <tandem/autograd/functions/loss.h>
#include <tandem/autograd/functions/norm.h>
#include <tandem/autograd/functions/pooling.h>
#include <tandem/autograd/functions/reduce.h>
#include <tandem/autograd/functions/resize.h>
#include <tandem/autograd/functions/shape.h>
#include <tandem/autograd/functions/sort.h>
#include <tandem/autograd/functions/views.h>
#include <tandem/autograd/like.h>
#include <tandem/autograd/random_draws.h>
