#include <tandem/distributed/ddp/communication_hooks.h>

namespace tandem::distributed {

CommunicationHook all_reduce_hook() {
  return [](const GradBucket& bucket, ProcessGroup& group) {
    return group.all_reduce(bucket.buffer, ReduceOp::mean, bucket.name);
  };
}

}  // namespace tandem::distributed
