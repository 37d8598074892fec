// A pass over all keys that compares them with the ends of brackets, and copies those inside.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu/select/brackets.h"
#include "cpu/select/key_reader.h"
#include "cpu/select/select_tiles.h"
#include "cpu/tuning.h"

namespace histo::cpu {

/// A channel in a pass that compares keys with the bounds of brackets.
template <class Key>
struct Bracketed {
  Brackets<Key> brackets;
  Key* copied; // keys in brackets
  int64_t room;
  std::vector<int64_t> from;    // how many keys are from each bracket's low end on
  std::atomic<int64_t> next{0}; // keys in brackets so far; more than fit are not copied
};

template <class Key>
class BracketPass {
 public:
  using BracketedChannels = std::vector<std::unique_ptr<Bracketed<Key>>>;

  BracketPass(KeyReader<Key>& reader, int64_t first_channel, BracketedChannels& all)
      : reader_(reader), first_channel_(first_channel), all_(all) {
  }
  void run(int64_t rows) {
    read_tiles(rows, static_cast<int64_t>(all_.size()), [&] { return BracketWorker(*this); });
  }

 private:
  class BracketWorker {
   public:
    explicit BracketWorker(BracketPass& pass) : pass_(pass), keys_(pass.all_.size() * kStep) {
      for (const auto& channel : pass.all_) {
        from_.emplace_back(channel->brackets.get().size());
      }
    }
    void read(int64_t begin, int64_t size) {
      const auto together = static_cast<int64_t>(from_.size());
      pass_.reader_.read(pass_.first_channel_, together, begin, size, keys_.data(), kStep);
      for (size_t i = 0; i < from_.size(); ++i) {
        Bracketed<Key>& channel = *pass_.all_[i];
        const Key* keys = keys_.data() + i * kStep;
        const int64_t copied =
            compare(keys, size, channel.brackets.get(), from_[i].data(), copied_.data());
        const int64_t at = copied > 0 ? channel.next.fetch_add(copied) : 0;
        if (at + copied <= channel.room) {
          std::copy_n(copied_.data(), copied, channel.copied + at);
        }
      }
    }
    void finish() {
      const std::lock_guard<std::mutex> guard(pass_.mutex_);
      for (size_t i = 0; i < from_.size(); ++i) {
        Bracketed<Key>& channel = *pass_.all_[i];
        for (size_t j = 0; j < from_[i].size(); ++j) {
          channel.from[j] += from_[i][j];
        }
      }
    }

   private:
    static constexpr size_t kStep = tuning::kKeysPerTile + kLineKeys;

    BracketPass& pass_;
    std::vector<Key> keys_;
    std::array<Key, tuning::kKeysPerTile> copied_;
    std::vector<std::vector<int64_t>> from_;
  };

  KeyReader<Key>& reader_;
  int64_t first_channel_;
  BracketedChannels& all_;
  std::mutex mutex_;
};

} // namespace histo::cpu
