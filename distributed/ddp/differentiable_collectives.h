// Collectives of autograd: all_gather, reduce_scatter and all_reduce of Tensors, whose gradients flow between the
// ranks.
#pragma once

#include <tandem/autograd/tensor.h>
#include <tandem/distributed/groups/process_group.h>

#include <cstdint>
#include <memory>
#include <string>

namespace tandem::distributed {

// A contrastive loss compares the rows of each rank with the rows of all ranks:
//
//   const Tensor all = all_gather(mine, group, "embeddings");  // (N_0 + N_1 + ..., features)
//   loss_of(mine, all).backward();                             // also reaches the rows' own ranks
//
// These functions have the names of torch.distributed and the gradients of torch.distributed.nn.functional. Every rank
// calls backward() on its own loss. A gradient is then that of the sum of all ranks' losses: the backward step of
// all_gather is the reduce_scatter of the ranks' gradients, that of reduce_scatter is their all_gather, and that of
// all_reduce is their all_reduce. DistributedDataParallel divides the gradients of parameters by the number of ranks,
// which turns the sum of the losses into their mean.
//
// Each call is collective and blocks. First the ranks exchange their shapes in one small message. If the shapes or
// dtypes do not fit together, every rank throws an Error that names a rank and the shapes, and the group remains
// usable. Arrays may have any dtype, but only floating ones have gradients. `name` appears in errors.
//
// backward() is collective too if any rank's input needs a gradient. The result then requires a gradient on all ranks,
// and every rank must run a backward pass that reaches it, in the reverse order of the calls. An engine that walks the
// same graph does so. A rank whose loss uses other results causes an Error on all ranks that names the operations, not
// a mix of their gradients. If a rank runs no backward pass, the others end after the group's timeout with an error
// that names that rank. If some ranks are under NoGrad and another rank's input needs a gradient, all ranks throw an
// Error.
//
// DistributedDataParallel may use the same group under the rule of SyncBatchNorm (sync_batch_norm.h): all ranks must
// run the same graph, because buckets start in between. If the graphs may differ, for example because ranks use
// different parameters (Unused::zero), pass a subgroup of all ranks. Its operations have their own queue.

// Returns the rows of all ranks in rank order, (sum of N_r, ...). `rows` is (N_r, ...): the numbers of rows N_r may
// differ between ranks and may be 0. All other dimensions and the dtype must be equal. If all N_r are equal, this is
// one all_gather of the group. Otherwise each rank broadcasts its rows.
Tensor all_gather(const Tensor& rows, const std::shared_ptr<ProcessGroup>& group, const std::string& name = {});

// Returns `rows` rows of the sum over the ranks of `x` (N, ...): rank 0 gets the first ones, and so on. `rows` may
// differ between ranks and may be 0; together, the ranks must ask for all N rows. All ranks pass the same shape.
Tensor reduce_scatter(const Tensor& x, std::int64_t rows, const std::shared_ptr<ProcessGroup>& group,
                      const std::string& name = {});

// Returns the sum over the ranks of `x`, which has the same shape on all ranks. `x` does not change.
Tensor all_reduce(const Tensor& x, const std::shared_ptr<ProcessGroup>& group, const std::string& name = {});

}  // namespace tandem::distributed
