// Operations on Arrays: checks, output allocation, and the call to the device's Backend. They compute no gradients;
// autograd/ has the differentiable operations.
#pragma once

#include <tandem/core/ops/attention.h>
#include <tandem/core/ops/convolution.h>
#include <tandem/core/ops/create.h>
#include <tandem/core/ops/dropout.h>
#include <tandem/core/ops/elementwise.h>
#include <tandem/core/ops/gather_rows.h>
#include <tandem/core/ops/index.h>
#include <tandem/core/ops/linear.h>
#include <tandem/core/ops/loss.h>
#include <tandem/core/ops/norm.h>
#include <tandem/core/ops/pooling.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/resize.h>
#include <tandem/core/ops/shape.h>
#include <tandem/core/ops/sort.h>
