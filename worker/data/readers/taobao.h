#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "common/thread_pool.h"
#include "worker/data/array.h"
#include "worker/data/dataset_arrays.h"

#include <cstdint>
#include <string>

namespace gnn::data {

/// The week of Taobao's data set, from 2017-11-25 to 2017-12-03 in China, in Unix seconds. It has a
/// few rows of other times, which are left out.
inline constexpr int64_t kTaobaoFirst = 1'511'539'200;
inline constexpr int64_t kTaobaoLast = 1'512'316'799;

/// Reads "User Behavior Data from Taobao": UserBehavior.csv or UserBehavior.csv.gz, given itself or by
/// its folder. A line is "user,item,category,behavior,timestamp", with a behavior of pv, cart, buy or
/// fav; there is no header.
/// - Rows outside of the week are dropped, then rows that repeat an earlier one in all columns.
/// - Nodes: users and items, numbered by ascending id of those left.
/// - Links: (user, to, item), one for each row left, in the order of the file. Two of them may join
///   the same nodes at different times or by different behaviors.
/// As PyG's data set of that name, without its categories. Origin::facts counts rows and categories.
/// Threads: parses on the caller's thread and those of `pool`. Memory: 16 bytes a row of scratch, or
/// 32 for ids beyond 32 bits, and half of its memory, 1 GiB at most, to find repeated rows.
/// Errors: NotFound; Data with file and line for a line of another form, an id that is negative or
/// beyond 64 bits, an unknown behavior or a timestamp that is no number, and for a file without rows
/// of the week.
Result<DatasetArrays> read_taobao(
    const std::string& path, ThreadPool& pool, ArrayStorage& storage, ProgressBar& progress
);

}  // namespace gnn::data
