// All of Tandem.
#pragma once

#include <tandem/autograd/autocast.h>
#include <tandem/autograd/gradcheck.h>
#include <tandem/autograd/ops.h>
#include <tandem/autograd/tensor.h>
#include <tandem/core/array.h>
#include <tandem/core/io/safetensors.h>
#include <tandem/core/ops.h>
#include <tandem/core/random.h>
#include <tandem/data/find_mnist.h>
#include <tandem/data/loader.h>
#include <tandem/data/mnist.h>
#include <tandem/data/sampler.h>
#include <tandem/distributed/checkpoint.h>
#include <tandem/distributed/distributed_data_parallel.h>
#include <tandem/distributed/init.h>
#include <tandem/distributed/sync_batch_norm.h>
#include <tandem/distributed/training_options.h>
#include <tandem/distributed/training_run.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv.h>
#include <tandem/nn/layers.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/sequential.h>
#include <tandem/optim/sgd.h>
