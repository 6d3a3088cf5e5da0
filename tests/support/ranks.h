// Runs ranks as threads of one process, which communicate over real sockets on loopback. The mpi backend needs
// processes, so mpi_test.cpp starts this program with mpirun and serves the store.
#pragma once

#include <tandem/distributed/groups/operation_observer.h>
#include <tandem/distributed/groups/process_group.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem::testing {

using Group = std::shared_ptr<distributed::ProcessGroup>;

// Without annexes there are no observers.
distributed::Observers usual_observers();

// The number of processes that mpirun started, or 0 without mpirun.
int mpi_size();

// Runs body(group) on the rank that this process is under mpirun. Returns the exception that it threw, or null.
std::exception_ptr run_mpi_rank(const std::function<void(Group)>& body, std::chrono::milliseconds timeout);

// Runs body(group) on `size` ranks. Returns for each rank the exception that it threw, or null. With the mpi backend,
// this process is one rank, and the list holds only its exception.
std::vector<std::exception_ptr> run_ranks_catching(int size, const std::function<void(Group)>& body,
                                                   std::chrono::milliseconds timeout = std::chrono::seconds(60),
                                                   const std::string& backend = "auto",
                                                   const distributed::Observers& observers = usual_observers());

// Runs body(group) on `size` ranks. No wait in it takes longer than `timeout`. Throws the exception of the lowest rank
// that failed.
void run_ranks(int size, const std::function<void(Group)>& body,
               std::chrono::milliseconds timeout = std::chrono::seconds(60), const std::string& backend = "auto");

// Whether the exception blames another rank.
bool is_peer_error(const std::exception_ptr& exception);

// The message of an exception_ptr; "" for null.
std::string message_of(const std::exception_ptr& exception);

}  // namespace tandem::testing
