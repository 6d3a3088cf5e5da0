"""A model of one training step over many ranks, from measured or assumed pieces: for bench/scaling.

Times are in seconds, sizes in bytes, rates in bytes a second. A step starts when the previous one has ended on all
ranks. The communication of a rank is one queue, as in DistributedDataParallel: a bucket starts when its gradients are
final and the previous bucket has ended.
"""
import functools
import math
from dataclasses import dataclass, replace
from statistics import NormalDist

MIB = 1 << 20
DIRECT_BYTES = 256 << 10  # gloo_transport.cpp: an array goes directly to all ranks if all peers get at most this much


@dataclass(frozen=True)
class Link:
    latency: float  # from the call that sends a small message to its arrival
    rate: float     # in each direction


@dataclass(frozen=True)
class Network:
    """Every rank has a link, or the ranks of a host share one link, and reach each other over `inside`."""
    link: Link
    inside: Link | None = None
    ranks_per_host: int = 1


@dataclass(frozen=True)
class Job:
    """The work of one rank in one step. All layers are of the same size."""
    layers: int
    gradient_bytes: int
    forward: float   # of all layers
    backward: float  # of all layers
    optimizer: float = 0.0
    spread: float = 0.0  # the time of a rank's step is multiplied by exp(spread z), with z from a normal distribution
    first_bucket: int = MIB
    bucket: int = 25 * MIB

    @property
    def compute(self):
        return self.forward + self.backward + self.optimizer

    def scaled(self, factor):
        return replace(self, forward=self.forward * factor, backward=self.backward * factor)


def mean_of_factor(spread):
    """The mean of exp(spread z)."""
    return math.exp(spread ** 2 / 2)


@functools.cache
def largest_factor(spread, ranks):
    """The expected maximum of exp(spread z) over the ranks, which draw z independently. Integrates the probability that
    the maximum is above x; z beyond 9 has no weight."""
    if spread == 0 or ranks == 1:
        return mean_of_factor(spread)
    normal, steps = NormalDist(), 4000
    last, sum_ = math.exp(-9 * spread), math.exp(-9 * spread)
    for i in range(1, steps + 1):
        z = -9 + 18 * i / steps
        x = math.exp(spread * z)
        sum_ += (x - last) * (1 - normal.cdf(z - 9 / steps) ** ranks)
        last = x
    return sum_


# Collectives over `ranks` ranks with an array of n bytes on each.

def ring(link, ranks, n):
    """All-reduce in 2 (W - 1) rounds, each with n / W bytes."""
    return 2 * (ranks - 1) * (link.latency + n / ranks / link.rate)


def direct(link, ranks, n):
    """All-reduce in which every rank sends its array to every other rank."""
    return link.latency + (ranks - 1) * n / link.rate if ranks > 1 else 0.0


def ring_or_direct(link, ranks, n):
    """What Tandem's gloo backend does."""
    return direct(link, ranks, n) if n * (ranks - 1) <= DIRECT_BYTES else ring(link, ranks, n)


def tree(link, ranks, n):
    """All-reduce up and down two pipelined binary trees, as NCCL does between hosts: P. Sanders, J. Speck,
    J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 35
    (2009)."""
    return 2 * (math.ceil(math.log2(ranks)) * link.latency + n / link.rate) if ranks > 1 else 0.0


def half_ring(link, ranks, n):
    """A reduce-scatter or an all-gather in W - 1 rounds, where n bytes is the whole array."""
    return ring(link, ranks, n) / 2


def half_direct(link, ranks, n):
    """A reduce-scatter or an all-gather of messages from every rank to every other rank."""
    return link.latency + (ranks - 1) / ranks * n / link.rate if ranks > 1 else 0.0


def over_hosts(collective):
    """The collective in a ring or tree over all ranks. The slowest link sets the pace."""
    def time(network, ranks, n):
        inside = network.inside and ranks <= network.ranks_per_host
        return collective(network.inside if inside else network.link, ranks, n)
    return time


def hierarchical(network, ranks, n):
    """Reduce-scatter inside each host; all-reduce of each part over the hosts, all parts at once over the host's link;
    all-gather inside each host."""
    local = min(ranks, network.ranks_per_host)
    inside = ring(network.inside, local, n) if local > 1 else 0.0
    return inside + ring(network.link, ranks // local, n)


# Strategies: the time of a step.

def bucket_ends(job):
    """For each bucket: the time in backward when its last gradient is final, and its bytes. Backward starts with the
    last layer."""
    size = job.gradient_bytes / job.layers
    buckets, filled, limit = [], 0.0, job.first_bucket
    for layer in range(1, job.layers + 1):
        filled += size
        if filled >= limit or layer == job.layers:
            buckets.append((job.backward * layer / job.layers, filled))
            filled, limit = 0.0, job.bucket
    return buckets


def overlapped(job, reduce):
    """Forward and backward, and one reduction after the other while backward runs."""
    free = 0.0
    for ready, n in bucket_ends(job):
        free = max(free, ready) + reduce(n)
    return job.forward + max(free, job.backward)


def ddp(all_reduce):
    def step(job, network, ranks):
        slow = job.scaled(largest_factor(job.spread, ranks))
        return overlapped(slow, lambda n: all_reduce(network, ranks, n)) + job.optimizer
    return step


def zero(reduce_scatter, all_gather, overlaps=True):
    """ZeRO-1 and ZeRO-2 (S. Rajbhandari et al., arXiv:1910.02054): each rank averages and updates a part, and the new
    weights are gathered after the optimizer. The optimizer has 1 / W of the work. Without `overlaps`, the gradients
    wait for the end of backward."""
    def step(job, network, ranks):
        slow = job.scaled(largest_factor(job.spread, ranks))
        if overlaps:
            computed = overlapped(slow, lambda n: reduce_scatter(network, ranks, n))
        else:
            computed = slow.forward + slow.backward + reduce_scatter(network, ranks, job.gradient_bytes)
        return computed + job.optimizer / ranks + all_gather(network, ranks, job.gradient_bytes)
    return step


def local_sgd(all_reduce, every):
    """LocalSGD and DiLoCo (A. Douillard et al., arXiv:2311.08105): the ranks average their weights every `every` steps.
    Slow and fast steps of a rank even out in between."""
    def step(job, network, ranks):
        spread = job.spread / math.sqrt(every)
        factor = mean_of_factor(job.spread) * largest_factor(spread, ranks) / mean_of_factor(spread)
        slow = job.scaled(factor)
        return slow.compute + all_reduce(network, ranks, job.gradient_bytes) / every
    return step


def efficiency(strategy, job, network, ranks):
    """The mean time of a rank's own work, as a part of the time of a step."""
    alone = job.scaled(mean_of_factor(job.spread)).compute
    return alone / strategy(job, network, ranks)
