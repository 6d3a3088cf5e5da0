// The capabilities of the emulated cuBLASLt and cuDNN, and the code that they share. A test disables some capabilities,
// to see what the back-end does instead.
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
  bool plan_while_recording = false;  // algorithms may be chosen while a graph is recorded
  int cublas_failure = 0;             // if not 0, products return this cublasStatus_t
  int cudnn_failure = 0;              // if not 0, convolutions return this cudnnStatus_t
  bool fails_early = false;           // these failures occur when an algorithm is chosen
};
Libraries& libraries();

// These functions abort the process if a call would fail or might fail on a real GPU.
// A thread that has not chosen a GPU may find no context when it calls a library.
void check_context(const char* call);
// Making a library's handle allocates and may load code, so it is not allowed while a graph is recorded.
void check_not_recorded(const char* call);
// Choosing an algorithm may do the same. No documentation says that it does not.
void check_plans(const char* call);
// The memory must be a GPU's, and must be aligned as promised.
void check_memory(const char* call, const char* name, const void* memory, std::size_t alignment);

// Returns numbers in a GPU's memory for the CPU's operations. The Array does not own the memory, like a pointer.
tandem::Array numbers_at(const void* memory, tandem::DType dtype, const tandem::Shape& shape,
                         const tandem::Strides& strides);
// Returns the f32 numbers of `a` as tensor cores read them in TF32, with 10 bits of mantissa.
tandem::Array as_tf32(const tandem::Array& a);

// Returns the result of a GPU's library instead of `exact`, the CPU's result, because the library adds in a different
// order. If the environment variable TANDEM_EMULATED_NOISE is a number, the result has a relative error of up to 2^-22
// in f32, 2^-12 in f16 and 2^-9 in bf16. The error depends only on that number, the position and the value, so the same
// call has the same bits.
tandem::Array as_a_library(const tandem::Array& exact);

// Puts a library's work into a stream. The workspace is overwritten before the work, which finds a workspace that was
// freed or is used elsewhere.
void submit_library_work(cudaStream_t stream, const char* library, void* workspace, std::size_t bytes,
                         std::function<void()> work);

}  // namespace emulation
