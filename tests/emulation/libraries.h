// What the emulated cuBLASLt and cuDNN can do, and what they share. A test forbids a part of what they can, to see what
// the back-end does instead.
#pragma once

#include <tandem/core/array/array.h>

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>

namespace emulation {

struct Libraries {
  bool multiply = true;       // cuBLASLt has an algorithm for a matrix product
  bool add_bias = true;       // matrix products and convolutions can add a bias
  bool sum_rows = true;       // matrix products can sum the rows of their first matrix
  bool channels_last = true;  // cuDNN has an algorithm for channels last
  bool row_major = true;
  bool plan_while_recording = false;  // algorithms may be looked for while a graph is recorded
  int cublas_failure = 0;             // what products return instead of being made, a cublasStatus_t
  int cudnn_failure = 0;              // the same of convolutions, a cudnnStatus_t
  bool fails_early = false;           // those failures come when an algorithm is looked for
};
Libraries& libraries();

// These end the process where a call would fail on a real GPU, or might:
// a thread that has not chosen a GPU calls a library, which may then find no context;
void check_context(const char* call);
// a library's handle is made while a graph is recorded, which allocates, and may load code;
void check_not_recorded(const char* call);
// a library looks for an algorithm meanwhile, which it is not known to do without either of those;
void check_plans(const char* call);
// a library gets memory that is not a GPU's, or that is not aligned as it was promised.
void check_memory(const char* call, const char* name, const void* memory, std::size_t alignment);

// Numbers in a GPU's memory as the CPU's operations take them. The Array keeps no memory alive, as a pointer would not.
tandem::Array numbers_at(const void* memory, tandem::DType dtype, const tandem::Shape& shape,
                         const tandem::Strides& strides);
// The numbers of `a`, which is f32, as the tensor cores read them in TF32: with 10 bits of mantissa.
tandem::Array as_tf32(const tandem::Array& a);

// What a library of a GPU gives instead of `exact`, the CPU's result: it adds in another order. Where the environment
// variable TANDEM_EMULATED_NOISE is a number, the result is off by up to 2^-22 of itself in f32, 2^-12 in f16 and 2^-9
// in bf16. That depends on the number, the place and the value alone: the same call gives the same bits again.
tandem::Array as_a_library(const tandem::Array& exact);

// Puts a library's work into a stream. Before it, the workspace is filled: it must still be there, and must be nobody
// else's.
void submit_library_work(cudaStream_t stream, const char* library, void* workspace, std::size_t bytes,
                         std::function<void()> work);

}  // namespace emulation
