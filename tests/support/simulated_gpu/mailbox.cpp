#include "support/simulated_gpu/mailbox.hpp"

#include <mpi.h>

#include "support/simulated_gpu/faults.hpp"

namespace simulated_gpu {
namespace {

MPI_Comm& comm() {
  static MPI_Comm own = MPI_COMM_NULL;
  return own;
}

struct Post {
  std::vector<std::byte> bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};

/// Of communicators that were aborted: MPI may still use them.
std::vector<std::unique_ptr<Post>>& lost() {
  static std::vector<std::unique_ptr<Post>> posts;
  return posts;
}

class MpiLetter : public Letter {
 public:
  explicit MpiLetter(std::unique_ptr<Post> post) : post_(std::move(post)) {}
  ~MpiLetter() override {
    if (!is_done()) lost().push_back(std::move(post_));
  }
  MpiLetter(const MpiLetter&) = delete;
  MpiLetter& operator=(const MpiLetter&) = delete;

  bool is_done() override {
    int done = 0;
    MPI_Test(&post_->request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  }
  const std::vector<std::byte>& bytes() const override { return post_->bytes; }

 private:
  std::unique_ptr<Post> post_;
};

}  // namespace

void connect() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0 && comm() == MPI_COMM_NULL) MPI_Comm_dup(MPI_COMM_WORLD, &comm());
}

int processes() {
  int size = 1;
  if (comm() != MPI_COMM_NULL) MPI_Comm_size(comm(), &size);
  return size;
}

std::unique_ptr<Letter> send(int peer, int tag, std::vector<std::byte> bytes) {
  auto post = std::make_unique<Post>();
  post->bytes = std::move(bytes);
  MPI_Isend(post->bytes.data(), static_cast<int>(post->bytes.size()), MPI_BYTE, peer, tag, comm(), &post->request);
  return std::make_unique<MpiLetter>(std::move(post));
}

std::unique_ptr<Letter> receive(int peer, int tag, std::size_t bytes) {
  auto post = std::make_unique<Post>();
  post->bytes.resize(bytes);
  MPI_Irecv(post->bytes.data(), static_cast<int>(bytes), MPI_BYTE, peer, tag, comm(), &post->request);
  return std::make_unique<MpiLetter>(std::move(post));
}

bool is_waiting(int tag) {
  int there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, tag, comm(), &there, MPI_STATUS_IGNORE);
  return there != 0;
}

}  // namespace simulated_gpu
