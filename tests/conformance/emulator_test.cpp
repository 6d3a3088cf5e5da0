// The emulated GPU is as strict as a real one. It always shows errors that a real GPU shows only sometimes.
#ifdef TANDEM_EMULATED_CUDA
#include <tandem/core/backend/backend.h>
#include <tandem/core/backend/device_graph.h>
#include <tandem/core/cuda/event.h>
#include <tandem/core/cuda/runtime.h>
#include <tandem/core/ops.h>

#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include <tandem/core/cuda/loops.cuh>
#include <tandem/core/cuda/warp.cuh>

namespace tandem {
namespace {

const Device gpu = Device::cuda(0);

// Death tests start the test program again, because a forked process lacks the thread that emulates the GPU.
class EmulatorDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void write_at(float* to, std::int64_t i) { to[i] = 1; }
void write_own(float* to) { to[threadIdx.x] = 1; }
void __launch_bounds__(512) write_own_of_512(float* to) { to[threadIdx.x] = 1; }
void read_neighbour(float* to) {
  const unsigned lane = threadIdx.x;
  if (lane == 5) return;
  const float other = __shfl_xor_sync(0xffffffffu, static_cast<float>(lane), 1);
  to[lane] = other;
}
void forget_barrier(unsigned* to) {
  TANDEM_SHARED(memory, 32, unsigned);
  if (threadIdx.x % 2 == 0) memory[threadIdx.x] = threadIdx.x;
  to[threadIdx.x] = threadIdx.x % 2 == 0 ? 0 : memory[threadIdx.x - 1];
}
void write_four(float* to) { *reinterpret_cast<cuda::Pack<float, 4>*>(to) = {}; }
void first_contents(unsigned* to) {
  TANDEM_SHARED(memory, 1, unsigned);
  to[blockIdx.x] = *memory;
  *memory = 7;
}
void too_much_shared(unsigned* to) {
  TANDEM_SHARED(one, 8 * 1024, unsigned);
  TANDEM_SHARED(two, 5 * 1024, unsigned);
  to[0] = one[0] + two[0];
}
// Each block writes a number, and the last block to arrive adds up all numbers. The argument says which fences to use.
struct Fences {
  bool before, after;
};
void add_numbers_of_blocks(Fences fences, unsigned* numbers, unsigned* finished, unsigned* sum) {
  numbers[blockIdx.x] = blockIdx.x + 1;
  if (fences.before) __threadfence();
  if (atomicInc(finished, gridDim.x - 1) != gridDim.x - 1) return;
  if (fences.after) __threadfence();
  *sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) *sum += numbers[i];
}
__device__ unsigned variable_of_file;
void count_in_file() { atomicInc(&variable_of_file, 1); }
void add_one(std::int32_t* to) { atomicAdd(to, 1); }
void read_first_number(unsigned* numbers) { numbers[blockIdx.x] = numbers[0] + 1; }
void stray_barrier(float* to) {
  if (threadIdx.x == 0) __syncthreads();
  else __syncwarp(2u);
  to[threadIdx.x] = 1;
}

template <class... Parameters, class... Arguments>
void run(void (*kernel)(Parameters...), unsigned threads, Arguments... arguments) {
  backend(gpu);
  cuda::launch(kernel, dim3(1), dim3(threads), arguments...);
  synchronize(gpu);
}

float* numbers_of(const Array& array) { return static_cast<float*>(array.raw()); }

TEST_F(EmulatorDeathTest, TheHostCanNotTouchTheMemoryOfTheGpu) {
  const Array x = ops::ones({4}, DType::f32, gpu);
  synchronize(gpu);
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile float*>(x.raw())), "code on the host touches");
  EXPECT_DEATH(numbers_of(x)[0] = 1, "code on the host touches");
}

TEST_F(EmulatorDeathTest, ATimeDoesNotBeginInAnIdleStream) {
  backend(gpu);
  const cuda::CudaEvent event(true);
  synchronize(gpu);
  EXPECT_DEATH(TANDEM_CUDA(cudaEventRecord(event, cuda::current_stream())), "a timing event in an idle stream");
}

TEST_F(EmulatorDeathTest, AKernelCanNotLeaveItsBlockOfMemory) {
  const Array x = ops::ones({1 << 16}, DType::f32, gpu);
  run(write_at, 1, numbers_of(x), std::int64_t{(1 << 16) - 1});
  EXPECT_DEATH(run(write_at, 1, numbers_of(x), std::int64_t{1 << 16}), "where no block of memory is");
}

TEST_F(EmulatorDeathTest, AKernelTakesNoPointersToTheHost) {
  float here = 0;
  EXPECT_DEATH(run(write_at, 1, &here, std::int64_t{0}), "a pointer to the host's memory");
}

TEST_F(EmulatorDeathTest, AKernelReachesManyBytesAtOnceOnlyWhereTheyAreAligned) {
  const Array x = ops::ones({8}, DType::f32, gpu);
  run(write_four, 1, numbers_of(x) + 4);
#ifdef __clang__
  const char* const message = "";  // here the processor, not the emulator, checks a store of a struct
#else
  const char* const message = "misaligned address";
#endif
  EXPECT_DEATH(run(write_four, 1, numbers_of(x) + 1), message);
}

TEST_F(EmulatorDeathTest, LanesThatHaveLeftAreNotRead) {
  const Array x = ops::ones({32}, DType::f32, gpu);
  EXPECT_DEATH(run(read_neighbour, 32, numbers_of(x)), "reads from lane 5, which is not there");
}

TEST_F(EmulatorDeathTest, ManyThreadsNeedLaunchBounds) {
  const Array x = ops::ones({512}, DType::f32, gpu);
  run(write_own, 256, numbers_of(x));
  run(write_own_of_512, 512, numbers_of(x));
  EXPECT_DEATH(emulation::check_bounds(1024 + 16, dim3(257)), "257 threads without __launch_bounds__");
}

TEST_F(EmulatorDeathTest, SharedMemoryIsLimited) {
  const Array x = ops::ones({32}, DType::f32, gpu);
  EXPECT_DEATH(run(too_much_shared, 1, static_cast<unsigned*>(x.raw())), "53248 bytes of shared memory");
}

TEST_F(EmulatorDeathTest, BarriersThatOthersNeverReachEndTheProcess) {
  const Array x = ops::ones({2}, DType::f32, gpu);
  EXPECT_DEATH(run(stray_barrier, 3, numbers_of(x)), "not in the mask|that others never reach");
}

TEST(Emulator, SharedMemoryIsUndefinedInEachBlock) {
  const Array x = ops::zeros({2}, DType::i32, gpu);
  cuda::launch(first_contents, dim3(2), dim3(1), static_cast<unsigned*>(x.raw()));
  EXPECT_EQ(x.to_vector<std::int32_t>(), std::vector<std::int32_t>(2, static_cast<std::int32_t>(0xa5a5a5a5u)));
}

// In some of the launches, threads read before others write.
TEST(Emulator, AMissingBarrierShows) {
  std::set<std::vector<std::int32_t>> results;
  for (int i = 0; i < 100 && results.size() < 2; ++i) {
    const Array x = Array::empty({32}, DType::i32, gpu);
    run(forget_barrier, 32, static_cast<unsigned*>(x.raw()));
    results.insert(x.to_vector<std::int32_t>());
  }
  EXPECT_EQ(results.size(), 2u);
}

// Other blocks see a block's writes if there are two fences with an atomic function between them.
TEST(Emulator, OtherBlocksSeeWhatIsFenced) {
  const Array finished = ops::zeros({1}, DType::i32, gpu);
  const auto sum = [&](Fences fences) {
    const Array numbers = ops::zeros({4}, DType::i32, gpu), sum = ops::zeros({1}, DType::i32, gpu);
    const auto pointer = [](const Array& x) { return static_cast<unsigned*>(x.raw()); };
    cuda::launch(add_numbers_of_blocks, dim3(4), dim3(1), fences, pointer(numbers), pointer(finished), pointer(sum));
    EXPECT_EQ(numbers.to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 2, 3, 4}));
    return sum.to_vector<std::int32_t>()[0];
  };
  EXPECT_EQ(sum({true, true}), 10);
  EXPECT_LT(sum({false, true}), 10);
  EXPECT_LT(sum({true, false}), 10);
  EXPECT_LT(sum({false, false}), 10);
}

TEST(Emulator, AtomicFunctionsOfAllBlocksAddUp) {
  const Array x = ops::zeros({1}, DType::i32, gpu);
  cuda::launch(add_one, dim3(5), dim3(64), static_cast<std::int32_t*>(x.raw()));
  EXPECT_EQ(x.to_vector<std::int32_t>()[0], 5 * 64);
}

TEST(Emulator, ABlockDoesNotSeeWhatAnotherOneWrites) {
  const Array x = ops::zeros({3}, DType::i32, gpu);
  cuda::launch(read_first_number, dim3(3), dim3(1), static_cast<unsigned*>(x.raw()));
  EXPECT_EQ(x.to_vector<std::int32_t>(), std::vector<std::int32_t>(3, 1));
}

// The two kernels could run at the same time and increment the same variable.
TEST_F(EmulatorDeathTest, KernelsOfTwoStreamsDoNotShareAVariableOfTheirFile) {
  const auto run_in = [&](cudaStream_t stream) {
    const cuda::StreamGuard guard(stream);
    cuda::launch(count_in_file, dim3(1), dim3(1));
    TANDEM_CUDA(cudaStreamSynchronize(stream));
  };
  backend(gpu);
  cudaStream_t other = nullptr;
  TANDEM_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  const cudaStream_t usual = cuda::current_stream();
  for (int i = 0; i < 2; ++i) run_in(usual);
  EXPECT_DEATH(run_in(other), "kernels of two streams use the variable");
  cudaStreamDestroy(other);
}

TEST(Emulator, AForkedProcessCanNotUseTheGpu) {
  backend(gpu);
  const pid_t child = fork();
  if (child == 0) {
    int number = 0;
    void* memory = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    bool all = true;
    for (const auto error :
         {cudaGetDeviceCount(&number), cudaGetDevice(&number), cudaSetDevice(0), cudaMalloc(&memory, 512),
          cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaEventCreate(&event), cudaGetLastError()})
      all = all && error == cudaErrorInitializationError;
    _exit(all ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// Heuristics may allocate memory or load code, which a capture may forbid.
TEST_F(EmulatorDeathTest, PlansAreNotMadeWhileAGraphIsRecorded) {
  const Array a = ops::ones({3, 5}, DType::f32, gpu), b = ops::ones({5, 7}, DType::f32, gpu);
  const Array x = ops::ones({1, 2, 5, 5}, DType::f32, gpu), weight = ops::ones({3, 2, 3, 3}, DType::f32, gpu);
  const auto multiply = [&] { ops::matmul(a, b); };
  const auto convolve = [&] { ops::conv2d(x, weight, std::nullopt, {.kernel = {3, 3}}); };
  ops::matmul(b.transpose(0, 1), b);  // makes the handle
  ops::conv2d(x, weight, std::nullopt, {.kernel = {3, 3}, .padding = {1, 1}});
  EXPECT_DEATH(record_graph(gpu, multiply), "cublasLtMatmulAlgoGetHeuristic while a graph is recorded");
  EXPECT_DEATH(record_graph(gpu, convolve), "cuDNN's heuristics while a graph is recorded");
  multiply();
  convolve();
  record_graph(gpu, multiply);
  record_graph(gpu, convolve);
}

TEST(Emulator, NewMemoryIsUndefined) {
  void* memory = nullptr;
  backend(gpu);
  TANDEM_CUDA(cudaMalloc(&memory, 4096));
  const auto storage = std::make_shared<Storage>(memory, 4096, gpu, [memory] { cudaFree(memory); });
  const Array x(storage, {1024}, {1}, 0, DType::f32);
  EXPECT_TRUE(std::isnan(x.slice(0, 0, 1).item()));
}

TEST(Emulator, GridsAndBlocksHaveLimits) {
  const Array x = ops::ones({4}, DType::f32, gpu);
  backend(gpu);
  for (const auto& [grid, block] : {std::pair(dim3(0), dim3(32)),
                                    {dim3(1), dim3(0)},
                                    {dim3(1), dim3(1025)},
                                    {dim3(1), dim3(64, 32)},
                                    {dim3(1, 65536), dim3(1)},
                                    {dim3(1, 1, 65536), dim3(1)},
                                    {dim3(1u << 31), dim3(1)},
                                    {dim3(1), dim3(1, 1, 65)}}) {
    try {
      cuda::launch(write_at, grid, block, numbers_of(x), std::int64_t{0});
      ADD_FAILURE() << "launched " << grid.x << ' ' << grid.y << ' ' << grid.z << " x " << block.x << ' ' << block.y;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("cudaErrorInvalidConfiguration"), std::string::npos) << error.what();
    }
  }
}

// There are two streams without an event between them. Whichever stream is filled first, the work of the other one runs
// first.
TEST(Emulator, StreamsDoNotWaitForEachOtherByThemselves) {
  backend(gpu);
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t event = nullptr;
  TANDEM_CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  TANDEM_CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  TANDEM_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  const auto sees_the_other = [&](bool waits) {
    const Array x = ops::zeros({1}, DType::f32, gpu), y = ops::zeros({1}, DType::f32, gpu);
    synchronize(gpu);
    TANDEM_CUDA(cudaMemsetAsync(x.raw(), 1, 4, first));
    TANDEM_CUDA(cudaEventRecord(event, first));
    if (waits) TANDEM_CUDA(cudaStreamWaitEvent(second, event));
    TANDEM_CUDA(cudaMemcpyAsync(y.raw(), x.raw(), 4, cudaMemcpyDeviceToDevice, second));
    TANDEM_CUDA(cudaStreamSynchronize(second));
    return y.item() != 0;
  };
  EXPECT_TRUE(sees_the_other(true));
  // If this thread was suspended, the first stream may have had enough time to finish.
  bool overtakes = false;
  for (int i = 0; i < 100 && !overtakes; ++i) overtakes = !sees_the_other(false);
  EXPECT_TRUE(overtakes);
  cudaEventDestroy(event);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
}

// Captures belong to streams. A capture that is not closed gets CUDA's error.
TEST(Emulator, CapturesOfStreams) {
  backend(gpu);
  cudaStream_t first = nullptr, second = nullptr, other = nullptr;
  for (auto* stream : {&first, &second, &other}) TANDEM_CUDA(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
  cudaEvent_t fork = nullptr, join = nullptr;
  for (auto* event : {&fork, &join}) TANDEM_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  const Array x = ops::zeros({2}, DType::f32, gpu), y = ops::zeros({2}, DType::f32, gpu);
  synchronize(gpu);
  cudaGraph_t graph = nullptr;
  const auto begin = [&] {
    TANDEM_CUDA(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
    TANDEM_CUDA(cudaMemsetAsync(x.raw(), 1, 4, first));
    TANDEM_CUDA(cudaEventRecord(fork, first));
    TANDEM_CUDA(cudaStreamWaitEvent(second, fork));
    TANDEM_CUDA(cudaMemcpyAsync(y.raw(), x.raw(), 4, cudaMemcpyDeviceToDevice, second));
  };
  begin();  // without joining the second stream
  EXPECT_EQ(cudaStreamEndCapture(first, &graph), cudaErrorStreamCaptureUnjoined);
  begin();
  TANDEM_CUDA(cudaEventRecord(join, second));
  EXPECT_EQ(cudaEventQuery(join), cudaErrorCapturedEvent);
  TANDEM_CUDA(cudaStreamWaitEvent(first, join));
  TANDEM_CUDA(cudaMemsetAsync(static_cast<char*>(y.raw()) + 4, 1, 4, other));  // not a part of the capture: it runs now
  TANDEM_CUDA(cudaStreamSynchronize(other));
  EXPECT_EQ(cudaStreamEndCapture(first, &graph), cudaSuccess);
  EXPECT_EQ(y.slice(0, 0, 1).item(), 0);
  EXPECT_NE(y.slice(0, 1, 2).item(), 0);
  cudaGraphExec_t executable = nullptr;
  TANDEM_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  TANDEM_CUDA(cudaGraphLaunch(executable, first));
  TANDEM_CUDA(cudaStreamSynchronize(first));
  EXPECT_NE(y.slice(0, 0, 1).item(), 0);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  // Waits for an event from outside the capture.
  TANDEM_CUDA(cudaEventRecord(fork, other));
  TANDEM_CUDA(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(cudaStreamWaitEvent(first, fork), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(first, &graph), cudaErrorStreamCaptureInvalidated);
  // Memory can be allocated by the driver only in a relaxed capture.
  void* memory = nullptr;
  TANDEM_CUDA(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaMalloc(&memory, 512), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(first, &graph), cudaErrorStreamCaptureInvalidated);
  for (auto event : {fork, join}) cudaEventDestroy(event);
  for (auto stream : {first, second, other}) cudaStreamDestroy(stream);
  cudaGetLastError();
}

TEST_F(EmulatorDeathTest, ACommunicatorDoesNotEndBeforeItsGraphs) {
  const Array x = ops::ones({1}, DType::f32, gpu);
  const auto end = [&] {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t communicator = nullptr;
    ncclCommInitRankConfig(&communicator, 1, id, 0, &config);
    cudaStream_t stream = nullptr;
    TANDEM_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    TANDEM_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    ncclAllReduce(x.raw(), x.raw(), 1, ncclFloat32, ncclSum, communicator, stream);
    cudaGraph_t graph = nullptr;
    TANDEM_CUDA(cudaStreamEndCapture(stream, &graph));
    ncclCommDestroy(communicator);
  };
  EXPECT_DEATH(end(), "destroy waits forever: a graph holds operations");
}

}  // namespace
}  // namespace tandem
#endif
