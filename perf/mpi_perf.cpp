// What does MPI_Allreduce cost? The loop of allreduce_perf around the MPI library's own all-reduce, for figures side by
// side: float32 sum, out of place, times averaged over the ranks.
//
//   mpirun -n 4 mpi_perf -b BYTES -n ITERATIONS -w WARMUP     prints one JSON line: microseconds
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

namespace {

struct Options {
  size_t bytes = 8;
  int iterations = 20, warmup = 5;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "-b") == 0) o.bytes = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "-n") == 0) o.iterations = std::max(1, std::atoi(argv[i + 1]));
    if (std::strcmp(argv[i], "-w") == 0) o.warmup = std::atoi(argv[i + 1]);
  }
  return o;
}

std::vector<double> time_calls(const Options& o) {
  const auto count = static_cast<int>(o.bytes / sizeof(float));
  std::vector<float> send(o.bytes / sizeof(float), 1), recv(send.size());
  std::vector<double> times(static_cast<size_t>(o.iterations));
  auto call = [&] { MPI_Allreduce(send.data(), recv.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
  for (int i = 0; i < o.warmup; ++i) call();
  MPI_Barrier(MPI_COMM_WORLD);
  auto last = std::chrono::steady_clock::now();
  for (double& time : times) {
    call();
    const auto now = std::chrono::steady_clock::now();
    time = std::chrono::duration<double, std::micro>(now - last).count();
    last = now;
  }
  return times;
}

void print(std::vector<double> times, int ranks) {
  for (double& t : times) t /= ranks;
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  std::sort(times.begin(), times.end());
  std::printf("{\"mean\":%.3f,\"median\":%.3f,\"min\":%.3f,\"p99\":%.3f}\n", mean, times[times.size() / 2],
              times.front(), times[(times.size() * 99 - 1) / 100]);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::vector<double> mine = time_calls(parse(argc, argv));
  std::vector<double> sum(mine.size());
  MPI_Reduce(mine.data(), sum.data(), static_cast<int>(mine.size()), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) print(std::move(sum), ranks);
  MPI_Finalize();
  return 0;
}
