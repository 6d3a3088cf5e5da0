// What the thread sanitizer must not complain of. The libraries of others are not built for it, so it sees what they
// allocate, copy and lock, but not all of how their threads wait for each other. Every program of a build with
// TANDEM_SANITIZE=thread contains this file; core/CMakeLists.txt links it.
extern "C" const char* __tsan_default_suppressions() {
  // oneDNN's threads wait by spinning.
  return "called_from_lib:libdnnl.so\n"
         // Gloo counts the users of a buffer (its common/memory.h).
         "race:gloo::transport::tcp::UnboundBuffer::~UnboundBuffer\n"
         "race:std::default_delete<gloo::transport::UnboundBuffer>\n"
         // Open MPI takes two of its locks in both orders, the second time from the only thread that can hold them.
         "deadlock:mca_btl_tcp_add_procs\n"
         // GCC 12's sanitizer does not see pthread_mutex_clocklock, with which std::timed_mutex waits for a time.
         "mutex:std::timed_mutex::unlock\n"
         // SIGUSR2 copies the flight recorder's ring while the job goes on. Who reads the copy copes with a torn entry.
         "race:copy_latest\n";
}
