#pragma once

#include "worker/progress/meter.h"

#include <cstdint>

namespace gnn::progress {

/// Where the time of batches went that servers made, summed over batches.
struct BatchSeconds {
  double queue = 0;   ///< at the server, until a thread took it
  double sample = 0;  ///< drawing seeds, pairs and neighbours
  double gather = 0;  ///< reading features and labels
  double wire = 0;    ///< a server's: until the answer was written; a client's: all else
};

/// A part of a batch's time, and its name in metrics.
struct BatchStage {
  const char* name;
  double BatchSeconds::*field;
};
inline constexpr BatchStage kBatchStages[] = {
    {"queue", &BatchSeconds::queue},
    {"sample", &BatchSeconds::sample},
    {"gather", &BatchSeconds::gather},
    {"wire", &BatchSeconds::wire},
};

/// What a sampling server has done since it started.
struct ServerData {
  int64_t batches = 0;       ///< answered
  int64_t bytes = 0;         ///< of answers: batches, and what other servers asked for
  int64_t queue_length = 0;  ///< requests that wait, or are worked on
  int64_t threads = 0;
  double busy_seconds = 0;  ///< of all threads
  int64_t clients = 0;      ///< connections of ranks and servers
  int64_t refused = 0;      ///< connections and requests
  BatchSeconds seconds{};
};

/// What servers have made for a rank since it started.
struct ServedData {
  int64_t batches = 0;    ///< received
  int64_t bytes = 0;      ///< of their answers
  int64_t under_way = 0;  ///< asked for and not received
  int64_t failovers = 0;  ///< batches asked for again, of another server
  bool waiting = false;   ///< no server takes part that holds what this rank needs now
  bool gave_up = false;   ///< none came within the job's time-out: the rank ends for that reason
  BatchSeconds seconds{};
};

/// Lets others read a rank's ServedData while its task runs, and what it was at the end.
using ServedMeter = Meter<ServedData>;

}  // namespace gnn::progress
