// The differentiable operations. Names and meanings are PyTorch's.
#pragma once

#include <tandem/autograd/ops_attention.h>
#include <tandem/autograd/ops_distance.h>
#include <tandem/autograd/ops_dropout.h>
#include <tandem/autograd/ops_einsum.h>
#include <tandem/autograd/ops_elementwise.h>
#include <tandem/autograd/ops_in_place.h>
#include <tandem/autograd/ops_index.h>
#include <tandem/autograd/ops_linear.h>
#include <tandem/autograd/ops_loss.h>
#include <tandem/autograd/ops_norm.h>
#include <tandem/autograd/ops_reduce.h>
#include <tandem/autograd/ops_shape.h>
#include <tandem/autograd/ops_sort.h>
#include <tandem/autograd/ops_spatial.h>
