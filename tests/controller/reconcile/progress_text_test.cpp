#include "controller/reconcile/progress_text.h"

#include <gtest/gtest.h>

namespace gnn::reconcile {
namespace {

TEST(ProgressText, SaysTimesInTheTwoLargestUnits) {
  EXPECT_EQ(short_time(0), "0s");
  EXPECT_EQ(short_time(45), "45s");
  EXPECT_EQ(short_time(200), "3m20s");
  EXPECT_EQ(short_time(120), "2m");
  EXPECT_EQ(short_time(7500), "2h5m");
  EXPECT_EQ(short_time(356'400), "4d3h");
}

TEST(ProgressText, SaysWhatIsKnown) {
  EXPECT_EQ(
      progress_text({.epoch = 12, .epochs = 50, .loss = "0.4312", .eta_seconds = 200}),
      "Epoch 12 of 50, loss 0.4312, 3 min 20 s left"
  );
  EXPECT_EQ(progress_text({.epoch = 1, .epochs = 50}), "Epoch 1 of 50");
  EXPECT_EQ(
      progress_text({.epoch = 3, .loss = "NaN", .eta_seconds = 5}), "Epoch 3, loss NaN, 5 s left"
  );
  EXPECT_EQ(progress_text({.loss = "0.1", .eta_seconds = 5}), "");
}

}  // namespace
}  // namespace gnn::reconcile
