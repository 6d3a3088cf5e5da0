// Operations on Arrays: checks, output allocation, and the call into the device's Backend. No gradients here; see
// autograd/ for the differentiable ones.
#pragma once

#include <tandem/core/ops_attention.h>
#include <tandem/core/ops_create.h>
#include <tandem/core/ops_dropout.h>
#include <tandem/core/ops_elementwise.h>
#include <tandem/core/ops_index.h>
#include <tandem/core/ops_linear.h>
#include <tandem/core/ops_loss.h>
#include <tandem/core/ops_norm.h>
#include <tandem/core/ops_reduce.h>
#include <tandem/core/ops_shape.h>
#include <tandem/core/ops_sort.h>
#include <tandem/core/ops_spatial.h>
