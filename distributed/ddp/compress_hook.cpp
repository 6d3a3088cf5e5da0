#include <tandem/distributed/ddp/compress_hook.h>

namespace tandem::distributed {
namespace {

class FinishedWork : public Work {
 public:
  FinishedWork(std::shared_ptr<Work> work, std::function<void()> finish)
      : work_(std::move(work)), finish_(std::move(finish)) {}
  bool is_done() const override { return work_->is_done(); }
  void wait() override {
    work_->wait();
    finish();
  }
  void wait(std::chrono::milliseconds timeout) override {
    work_->wait(timeout);
    finish();
  }
  std::exception_ptr exception() const override { return work_->exception(); }

 private:
  void finish() {
    if (finish_) std::exchange(finish_, nullptr)();
  }

  std::shared_ptr<Work> work_;
  std::function<void()> finish_;
};

}  // namespace

std::shared_ptr<Work> finish_with(std::shared_ptr<Work> work, std::function<void()> finish) {
  return std::make_shared<FinishedWork>(std::move(work), std::move(finish));
}

CommunicationHook compress_hook(DType dtype) {
  TANDEM_CHECK(dtype == DType::bf16 || dtype == DType::f16, "gradients can be compressed to bf16 or f16, not to ",
               dtype);
  return [dtype](const GradBucket& bucket, ProcessGroup& group) {
    if (size_of(bucket.buffer.dtype()) <= size_of(dtype)) return all_reduce_hook()(bucket, group);
    const Array message = bucket.buffer.to(dtype);
    auto work = group.all_reduce(message, ReduceOp::mean, bucket.name + " as " + name_of(dtype));
    return finish_with(std::move(work), [buffer = bucket.buffer, message]() mutable { buffer.copy_from(message); });
  };
}

}  // namespace tandem::distributed
