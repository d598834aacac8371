#include "common/contract.h"
#include "tests/support/read_file.h"
#include "tests/worker/data/files.h"
#include "tests/worker/data/storage_fake.h"
#include "tests/worker/graph/load_native.h"
#include "worker/app/command.h"
#include "worker/app/data_output.h"
#include "worker/app/generate_data.h"
#include "worker/app/import_data.h"
#include "worker/app/inspect_data.h"
#include "worker/app/partition_links.h"
#include "worker/data/digest.h"
#include "worker/data/native.h"
#include "worker/data/readers/ogb.h"
#include "worker/graph/load.h"
#include "worker/progress/console_sink.h"
#include "worker/tasks/link_data.h"
#include "worker/tasks/link_graph.h"

#include <ATen/Functions.h>
#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

namespace fs = std::filesystem;

using data::testing::gzip;
using data::testing::OgbFiles;
using data::testing::TemporaryFolder;
using gnn::testing::read_file;
using graph::testing::load_native;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kIndex =
    "Package: a\nSection: net\nDepends: b\nDescription: one\n\n"
    "Package: b\nSection: libs\nDescription: two\n\n"
    "Package: c\nSection: libs\nDepends: a\nDescription: three\n";

class DataCommand : public ::testing::Test {
 protected:
  DataConsole console() {
    return {.out = out_, .progress = silent_, .dumpavail = []() -> Result<std::string> {
              return kIndex;
            }};
  }
  ImportRequest ring() {
    OgbFiles().write(folder_);
    ImportRequest request;
    request.input = folder_.path("ring");
    request.output.folder = folder_.path("out");
    return request;
  }
  // Runs a command line as main() does; returns the exit code.
  int run(std::vector<std::string> arguments) {
    CLI::App root{"gnn-worker"};
    Subcommand chosen;
    add_data_command(root, chosen);
    std::reverse(arguments.begin(), arguments.end());
    try {
      root.parse(arguments);
    } catch (const CLI::ParseError& error) {
      return root.exit(error, out_, out_) == 0 ? 0 : contract::kExitConfiguration;
    }
    return chosen();
  }

  TemporaryFolder folder_;
  std::ostringstream out_;
  SilentProgressBar silent_;
};

TEST_F(DataCommand, ImportsInspectsAndVerifies) {
  ImportRequest request = ring();
  request.reading.to_undirected = true;
  const Status imported = import_data(request, console());
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_THAT(out_.str(), HasSubstr("out: 6 nodes, 16 edges, 3 classes"));
  out_.str("");
  ASSERT_TRUE(inspect_data(request.output.folder, InspectFormat::Text, console()));
  EXPECT_THAT(out_.str(), HasSubstr("node: 6 nodes, features float32 [6, 2], labels int64 [6]"));
  EXPECT_THAT(
      out_.str(), HasSubstr("16 edges (int32 ids), largest in-degree 3, 0 nodes without in-edge")
  );
  EXPECT_THAT(out_.str(), HasSubstr("3 train, 1 validation, 2 test"));
  EXPECT_THAT(out_.str(), HasSubstr("toUndirected=true"));
  out_.str("");
  ASSERT_TRUE(inspect_data(request.output.folder, InspectFormat::Json, console()));
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_EQ(json["nodeTypes"][0]["count"], 6);
  EXPECT_EQ(json["split"]["test"], 2);
  out_.str("");
  ASSERT_TRUE(verify_data(request.output.folder, console()));
  EXPECT_THAT(out_.str(), HasSubstr("intact (6 nodes, 16 edges"));
}

TEST_F(DataCommand, RefusesTooLittleMemoryAndGeneratesOgbsFormThatItImportsAsWhatItGenerates) {
  const auto generate =
      [&](const std::string& form, const std::string& name, const std::string& memory = "") {
        std::vector<std::string> arguments{
            "data",
            "generate",
            "--shape",
            "ogbn-papers100M",
            "--scale",
            "0.0001",
            "--feature-dtype",
            "float16",
            "--form",
            form,
            "--output",
            folder_.path(name)
        };
        if (!memory.empty()) arguments.insert(arguments.end(), {"--memory", memory});
        return run(std::move(arguments));
      };
  // Less than the program itself takes.
  EXPECT_EQ(generate("native", "native", "8MiB"), contract::kExitConfiguration);
  EXPECT_FALSE(fs::exists(folder_.path("native")));
  ASSERT_EQ(generate("native", "native", "8GiB"), contract::kExitDone);
  ASSERT_EQ(generate("ogb-npz", "ogb"), contract::kExitDone);
  EXPECT_FALSE(fs::exists(folder_.path("ogb.partial")));
  // A folder that is complete is not written over.
  EXPECT_EQ(generate("ogb-npz", "ogb"), contract::kExitConfiguration);
  ASSERT_EQ(
      run(
          {"data",
           "import",
           "--format",
           "ogb",
           "--feature-dtype",
           "float16",
           "--input",
           folder_.path("ogb"),
           "--output",
           folder_.path("imported")}
      ),
      contract::kExitDone
  );
  const auto wanted = data::open_native(folder_.path("native"));
  const auto found = data::open_native(folder_.path("imported"));
  ASSERT_TRUE(wanted && found);
  EXPECT_EQ(data::digest_of(found->arrays), data::digest_of(wanted->arrays));
}

TEST_F(DataCommand, LeavesACompleteOutputUnchanged) {
  const ImportRequest request = ring();
  ASSERT_TRUE(import_data(request, console()));
  const auto made = fs::last_write_time(request.output.folder + "/" + data::kManifestFile);
  out_.str("");
  ASSERT_TRUE(import_data(request, console()));
  EXPECT_THAT(
      out_.str(), HasSubstr("already complete, made from the same inputs with the same options")
  );
  EXPECT_EQ(fs::last_write_time(request.output.folder + "/" + data::kManifestFile), made);

  // A folder that only its file system may read, as volumes have one, is no input.
  fs::create_directory(request.input + "/lost+found");
  fs::permissions(request.input + "/lost+found", fs::perms::none);
  const auto import_as_nobody = [&]() -> Status {
    constexpr uid_t kNobody = 65534;
    const uid_t user = ::geteuid();
    if (user == 0) {
      EXPECT_EQ(::seteuid(kNobody), 0);  // root may read everything
    }
    Status imported = import_data(request, console());
    if (user == 0) {
      EXPECT_EQ(::seteuid(user), 0);
    }
    return imported;
  };
  const fs::path parent = fs::path(request.input).parent_path();
  fs::permissions(parent, fs::perms::none);
  const Status unreadable = import_as_nobody();
  fs::permissions(parent, fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
  ASSERT_FALSE(unreadable);
  EXPECT_THAT(unreadable.error().message, Not(HasSubstr("would be lost")));
  const Status again = import_as_nobody();
  EXPECT_TRUE(again) << again.error().message;
  fs::permissions(request.input + "/lost+found", fs::perms::owner_all);
}

TEST_F(DataCommand, WaitsForAnotherWriterAndTakesWhatItMade) {
  const ImportRequest request = ring();
  auto other = data::NativeWriter::open(request.output.folder, "another job");
  ASSERT_TRUE(other);
  const Status refused = import_data(request, console());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Conflict);

  int64_t waits = 0;
  DataConsole waiting = console();
  waiting.await_writer = [&](const Error& busy) -> Status {
    EXPECT_THAT(busy.message, HasSubstr("out: is being written by process "));
    if (++waits < 3) return {};
    // Meanwhile the other publishes what both were asked for.
    other->reset();
    return import_data(request, console());
  };
  out_.str("");
  const Status waited = import_data(request, waiting);
  ASSERT_TRUE(waited) << waited.error().message;
  EXPECT_EQ(waits, 3);
  EXPECT_THAT(out_.str(), HasSubstr("already complete"));
  EXPECT_FALSE(fs::exists(request.output.folder + ".partial"));

  auto hung = data::NativeWriter::open(request.output.folder, "another job");
  ASSERT_TRUE(hung);
  waiting.await_writer = [](const Error& busy) -> Status {
    return fail(ErrorKind::Timeout, busy.message);
  };
  fs::remove_all(request.output.folder);
  const Status given_up = import_data(request, waiting);
  ASSERT_FALSE(given_up);
  EXPECT_EQ(given_up.error().kind, ErrorKind::Timeout);
}

TEST_F(DataCommand, ReplacesAnOutputOfOtherInputsOnlyIfAskedTo) {
  ImportRequest request = ring();
  ASSERT_TRUE(import_data(request, console()));
  folder_.write("ring/raw/node-label.csv.gz", gzip("0\n1\n2\n0\n1\n1\n"));
  const Status refused = import_data(request, console());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Conflict);
  EXPECT_THAT(refused.error().message, HasSubstr("--replace"));
  request.output.replace = true;
  ASSERT_TRUE(import_data(request, console()));
  const auto dataset = load_native(request.output.folder);
  EXPECT_EQ(dataset->target().labels[5].item<int64_t>(), 1);

  // Nor what is no data set, whatever is asked; before any work is done.
  const std::string file = folder_.write("file", "");
  const std::string inner = folder_.write("home/raw-notes/file", "");
  for (const std::string& output : {file, folder_.path("home")}) {
    for (const bool replace : {false, true}) {
      request.output = {.folder = output, .replace = replace};
      const Status kept = import_data(request, console());
      ASSERT_FALSE(kept) << output;
      EXPECT_EQ(kept.error().kind, ErrorKind::Conflict);
      EXPECT_THAT(kept.error().message, HasSubstr("is no data set"));
      EXPECT_FALSE(fs::exists(output + ".partial"));
    }
  }
  EXPECT_TRUE(fs::is_regular_file(file));
  EXPECT_TRUE(fs::is_regular_file(inner));

  const std::string link = folder_.path("link");
  fs::create_symlink(folder_.path("nowhere"), link);
  request.output = {.folder = link};
  EXPECT_EQ(import_data(request, console()).error().kind, ErrorKind::Conflict);
  request.output.replace = true;
  const Status replaced = import_data(request, console());
  ASSERT_TRUE(replaced) << replaced.error().message;
  EXPECT_TRUE(fs::is_directory(fs::symlink_status(link)));
  request.output.folder = "/proc";
  const Status mounted = import_data(request, console());
  ASSERT_FALSE(mounted);
  EXPECT_EQ(mounted.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(mounted.error().message, HasSubstr("/proc: a volume is mounted there"));
}

TEST_F(DataCommand, NeverReplacesItsInput) {
  ImportRequest request = ring();
  request.output.replace = true;
  for (const std::string& output : {request.input, request.input + "/", folder_.path("ring/..")}) {
    request.output.folder = output;
    const Status refused = import_data(request, console());
    ASSERT_FALSE(refused) << output;
    EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
    EXPECT_THAT(refused.error().message, HasSubstr("holds the input"));
  }
  EXPECT_TRUE(fs::exists(request.input + "/raw"));

  // Nor does it write to where a link in its lock's place leads.
  request.output.folder = folder_.path("out");
  const std::string features = folder_.path("ring/raw/node-feat.csv.gz");
  const std::string content = read_file(features);
  fs::create_symlink(features, request.output.folder + ".lock");
  EXPECT_EQ(import_data(request, console()).error().kind, ErrorKind::Io);
  EXPECT_EQ(read_file(features), content);
}

TEST_F(DataCommand, ResumesAnInterruptedImport) {
  const ImportRequest request = ring();
  ASSERT_TRUE(import_data(request, console()));
  const std::string whole = read_file(request.output.folder + "/" + data::kManifestFile);
  fs::remove_all(request.output.folder);
  // As if the process had died while it read the features: the edges are complete, they are not.
  const std::string features = folder_.path("ring/raw/node-feat.csv.gz");
  const std::string content = read_file(features);
  {
    const std::string key = [&] {
      const auto at = whole.find("key: ");
      std::string text = whole.substr(at + 5, whole.find('\n', at) - at - 5);
      std::erase(text, '"');
      return text;
    }();
    auto writer = *data::NativeWriter::open(request.output.folder, key);
    fs::remove(features);
    folder_.write("ring/raw/node-feat.csv.gz", "damaged");
    ASSERT_FALSE(data::read_ogb(request.input, request.reading, *writer, silent_));
  }
  EXPECT_FALSE(fs::exists(request.output.folder));
  folder_.write("ring/raw/node-feat.csv.gz", content);
  out_.str("");
  ASSERT_TRUE(import_data(request, console()));
  EXPECT_THAT(out_.str(), HasSubstr("resuming an interrupted run"));
  EXPECT_EQ(read_file(request.output.folder + "/" + data::kManifestFile), whole);
}

TEST_F(DataCommand, StartsAnInterruptedImportOverWithOtherOptions) {
  ImportRequest request = ring();
  const std::string features = folder_.path("ring/raw/node-feat.csv.gz");
  const std::string content = read_file(features);
  folder_.write("ring/raw/node-feat.csv.gz", "damaged");
  ASSERT_FALSE(import_data(request, console()));  // its edges are complete
  const std::string partial = request.output.folder + ".partial/";
  ASSERT_TRUE(fs::exists(partial + "edges.node.to.node.indices.npy"));
  folder_.write("ring/raw/node-feat.csv.gz", content);
  out_.str("");
  request.reading.to_undirected = true;
  ASSERT_TRUE(import_data(request, console()));
  EXPECT_THAT(out_.str(), Not(HasSubstr("resuming")));
  EXPECT_THAT(out_.str(), HasSubstr("out: 6 nodes, 16 edges"));
  EXPECT_TRUE(verify_data(request.output.folder, console()));
}

TEST_F(DataCommand, PublishesNothingThatTrainingRefuses) {
  const ImportRequest request = ring();
  folder_.write(
      "ring/raw/node-label.csv.gz", gzip("0\n1\nnan\n0\n1\n1\n")
  );  // node 2 is to be trained on
  const Status status = import_data(request, console());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::Data);
  EXPECT_THAT(status.error().message, HasSubstr("train.csv.gz: train[2]: id 2 has no label"));
  EXPECT_FALSE(fs::exists(request.output.folder));
}

TEST_F(DataCommand, ImportsThePackageIndexFromAptOrAFile) {
  ImportRequest request;
  request.format = ImportFormat::PackageIndex;
  request.output.folder = folder_.path("apt");
  request.package_index.num_features = 16;
  ASSERT_TRUE(import_data(request, console()));
  request.input = folder_.write("index.gz", gzip(kIndex));
  request.output.folder = folder_.path("file");
  ASSERT_TRUE(import_data(request, console()));
  const auto from_apt = data::open_native(folder_.path("apt"));
  const auto from_file = data::open_native(folder_.path("file"));
  ASSERT_TRUE(from_apt && from_file);
  // sha256sum of the index, packed or not
  EXPECT_EQ(from_apt->arrays.origin.facts, from_file->arrays.origin.facts);
  EXPECT_EQ(from_apt->arrays.origin.facts.front().first, "indexDigest");
}

TEST_F(DataCommand, ImportsReddit) {
  data::testing::RedditFiles().write(folder_);
  const std::string input = folder_.path("reddit");
  const std::string output = folder_.path("out");
  ASSERT_EQ(run({"data", "import", "--format", "reddit", "--input", input, "--output", output}), 0);
  ASSERT_TRUE(inspect_data(output, InspectFormat::Text, console()));
  EXPECT_THAT(out_.str(), HasSubstr("node: 6 nodes, features float32 [6, 2], labels int64 [6]"));
  EXPECT_THAT(out_.str(), HasSubstr("16 edges"));
  EXPECT_THAT(out_.str(), HasSubstr("3 train, 1 validation, 2 test"));
  EXPECT_THAT(out_.str(), HasSubstr("made from       Reddit"));
}

TEST_F(DataCommand, ImportsLinksOfSeveralTypesAndShowsThem) {
  folder_.write("shop/nodes/user/num_nodes.csv", "3\n");
  folder_.write("shop/nodes/item/features.csv", "1\n2\n");
  folder_.write("shop/nodes/item/features.image.csv", "1,2\n3,4\n");
  folder_.write("shop/edges/user__buys__item.csv", "2,0\n0,1\n1,0\n2,1\n");
  const std::string output = folder_.path("out");
  ASSERT_EQ(
      run(
          {"data",
           "import",
           "--format",
           "edge-list",
           "--input",
           folder_.path("shop"),
           "--output",
           output,
           "--link",
           "user,buys,item",
           "--add-reverse"}
      ),
      0
  );
  EXPECT_EQ(run({"data", "verify", output}), 0);
  out_.str("");
  ASSERT_TRUE(inspect_data(output, InspectFormat::Text, console()));
  const std::string text = out_.str();
  for (const char* line :
       {"node type       item: 2 nodes, features float32 [2, 1], image float32 [2, 2], labels none",
        "node type       user: 3 nodes, features none, labels none",
        "edge type       user -buys-> item: 4 edges",
        "edge type       item -rev_buys-> user: 4 edges",
        "links           user -buys-> item: 4 links, reverse item -rev_buys-> user",
        "link=(user, buys, item), addReverse=true",
        "array           nodes.item.features.image: float32 [2, 2]",
        "array           edges.item.rev_buys.user.edge_ids: int64 [4]",
        "array           links.pairs: int64 [4, 2]"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  out_.str("");
  ASSERT_TRUE(inspect_data(output, InspectFormat::Json, console()));
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_EQ(json["nodeTypes"][0]["features"][1]["name"], "image");
  EXPECT_EQ(json["nodeTypes"][0]["features"][1]["array"], "nodes.item.features.image");
  EXPECT_EQ(json["edgeTypes"][1]["edgeIds"]["array"], "edges.item.rev_buys.user.edge_ids");
  EXPECT_EQ(json["links"]["edgeType"]["relation"], "buys");
  EXPECT_EQ(json["links"]["reverse"]["relation"], "rev_buys");
  EXPECT_EQ(json["links"]["count"], 4);
}

TEST_F(DataCommand, AnOutputOfAnOlderFormStaysComplete) {
  // What the key of this import was digested from in the first version.
  const std::string text = "ogb\nsplit=\n1\n/a xxh64:1\n";
  EXPECT_EQ(
      key_of("ogb", "split=", "/in", {{.path = "/in/a", .bytes = 1, .digest = "xxh64:1"}}),
      data::digest_of(data::DigestKind::Sha256, std::as_bytes(std::span(text)))
  );
}

TEST_F(DataCommand, ImportsPackageTagsFromApt) {
  ImportRequest request;
  request.format = ImportFormat::PackageTags;
  request.output.folder = folder_.path("tags");
  request.package_index.num_features = 16;
  const DataConsole tagged{.out = out_, .progress = silent_, .dumpavail = [] {
                             return Result<std::string>(
                                 "Package: a\nTag: role::program, works-with::{mail,text}\n"
                                 "Description: mail\n\nPackage: b\nTag: role::program\n"
                                 "Description: text\n"
                             );
                           }};
  const Status status = import_data(request, tagged);
  ASSERT_TRUE(status) << status.error().message;
  const auto dataset = data::open_native(request.output.folder);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->arrays.origin.source, "PackageTags");
  EXPECT_EQ(dataset->arrays.edge_tables.at(0).relation, "has");
  EXPECT_EQ(dataset->arrays.edge_tables.at(0).indices.num_elements(), 4);
  EXPECT_EQ(dataset->arrays.node_tables.at(0).features.size(1), 16);
}

TEST_F(DataCommand, ImportsTaobao) {
  const std::string input =
      folder_.write("taobao/UserBehavior.csv", "1,2,3,pv,1511600000\n1,4,3,buy,1511600000\n");
  const std::string output = folder_.path("out");
  ASSERT_EQ(run({"data", "import", "--format", "taobao", "--input", input, "--output", output}), 0);
  const auto dataset = data::open_native(output);
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->arrays.origin.source, "Taobao");
  EXPECT_EQ(dataset->arrays.node_tables.at(1).num_nodes, 2);
  EXPECT_EQ(dataset->arrays.origin.path, input);
}

TEST_F(DataCommand, GeneratesADataSetAndPrintsItsSize) {
  GenerateRequest request{
      .output = {.folder = folder_.path("synthetic")},
      .options = {.scale = 0.01, .flipped_labels = 0.2}
  };
  ASSERT_TRUE(generate_data(request, console()));
  EXPECT_THAT(out_.str(), HasSubstr("1693 nodes, 23156 edges, 40 classes"));
  out_.str("");
  ASSERT_TRUE(inspect_data(request.output.folder, InspectFormat::Text, console()));
  EXPECT_THAT(out_.str(), HasSubstr("accuracyCeiling = 0.805"));
  out_.str("");
  ASSERT_TRUE(generate_data(request, console()));
  EXPECT_THAT(out_.str(), HasSubstr("already complete"));
  request.options.flipped_labels += 1e-9;
  EXPECT_EQ(generate_data(request, console()).error().kind, ErrorKind::Conflict) << "other data";
}

TEST_F(DataCommand, PartitionsADataSetReportsItAndExtractsAPart) {
  const std::string whole = folder_.path("whole");
  const std::string parts = folder_.path("parts");
  ASSERT_EQ(
      run({"data", "generate", "--shape", "ogbn-arxiv", "--scale", "0.01", "--output", whole}), 0
  );
  const std::vector<std::string> command{
      "data",
      "partition",
      "--input",
      whole,
      "--output",
      parts,
      "--parts",
      "3",
      "--method",
      "ldg",
      "--fanout",
      "5,3",
      "--batch-size",
      "16",
      "--picture",
      folder_.path("report.svg"),
      "--json"
  };
  ::testing::internal::CaptureStdout();
  ASSERT_EQ(run(command), 0);
  const std::string printed = ::testing::internal::GetCapturedStdout();
  const auto report = nlohmann::json::parse(printed);
  EXPECT_EQ(report["parts"].size(), 3U);
  EXPECT_LT(report["cut"], 0.66);
  EXPECT_THAT(read_file(folder_.path("report.svg")), HasSubstr("3 parts by ldg"));
  const auto opened = load_native(parts);
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_TRUE(opened->partitions);
  EXPECT_EQ(opened->partitions->book.draws.fanouts[0], (std::vector<int64_t>{5, 3}));
  // Complete for the same options, another set for others.
  EXPECT_EQ(run(command), 0);
  std::vector<std::string> other = command;
  other.insert(other.end(), {"--hot-rows", "0.2000000001"});
  EXPECT_EQ(run(other), contract::kExitConfiguration);
  other = command;
  other[7] = "2";
  EXPECT_EQ(run(other), contract::kExitConfiguration);

  const std::string part = folder_.path("part");
  ASSERT_EQ(run({"data", "partition", "--input", parts, "--extract", "1", "--output", part}), 0);
  out_.str("");
  ASSERT_TRUE(inspect_data(part, InspectFormat::Text, console()));
  EXPECT_THAT(out_.str(), HasSubstr("3 by ldg, of which part 1 alone is here"));
  ASSERT_TRUE(verify_data(part, console()));
  // A job takes it only if it asks for parts, and knows it as the same data.
  api::Dataset spec;
  spec.format = api::DatasetFormat::Native;
  spec.path = part;
  const auto refused = graph::load_dataset(spec, {}, silent_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("holds part 1 of 3 alone; set spec.placement"));
  const auto loaded = graph::load_dataset(spec, {.accept_part = true}, silent_);
  ASSERT_TRUE(loaded) << loaded.error().message;
  spec.path = parts;
  EXPECT_EQ(loaded->digest, graph::load_dataset(spec, {}, silent_)->digest);
  EXPECT_EQ(loaded->graph().num_destinations(), loaded->held(0).size());
  spec.path = part;
  spec.split = {.type = api::SplitType::Random, .train = api::Decimal{"0.5"}};
  const auto split = graph::load_dataset(spec, {.accept_part = true}, silent_);
  ASSERT_FALSE(split);
  EXPECT_THAT(split.error().message, HasSubstr("set spec.dataset.split.type to Provided"));
  EXPECT_EQ(
      run(
          {"data", "partition", "--input", parts, "--extract", "1", "--parts", "2", "--output", part
          }
      ),
      contract::kExitConfiguration
  );

  // Damaged files are refused before anything follows from them.
  const auto damage = [](const std::string& path, int64_t value) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 8 * 600);
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const auto said_of = [&](const std::vector<std::string>& arguments) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(run(arguments), contract::kExitData);
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string unmade = folder_.path("unmade");
  damage(whole + "/edges.node.to.node.indices.npy", -1);
  other[5] = unmade;
  EXPECT_THAT(said_of(other), HasSubstr(whole + ": "));
  damage(parts + "/edges.node.to.node.indptr.npy", int64_t{1} << 40);
  EXPECT_THAT(
      said_of({"data", "partition", "--input", parts, "--extract", "1", "--output", unmade}),
      HasSubstr(parts + ": ")
  );
}

struct LittleMemory final : data::testing::StorageFake {
  [[nodiscard]] int64_t memory_bytes() const override { return 4096; }
};

struct Messages final : progress::NullSink {
  void on_message(const std::string& message) override { said += message + "\n"; }

  std::string said;
};

// Pairs in the ids that nodes had before; of undirected ones the smaller comes first.
at::Tensor in_original_ids(
    const at::Tensor& pairs, const graph::Dataset& parts, const graph::EdgeTypeData& links
) {
  const std::vector<at::Tensor>& ids = parts.partitions->original_ids;
  const at::Tensor made = at::stack(
      {ids[static_cast<size_t>(links.source_index)].index_select(0, pairs.select(1, 0)),
       ids[static_cast<size_t>(links.destination_index)].index_select(0, pairs.select(1, 1))},
      1
  );
  return parts.links->reverse_edge_type == parts.links->edge_type ? std::get<0>(made.sort(1))
                                                                  : made;
}

TEST_F(DataCommand, KeepsTheSplitOfLinksAsItWasBeforePartitionsForJobsThatSplitThemAlike) {
  Messages messages;
  const StopToken stop;
  tasks::TaskContext context{
      .communicator = comm::make_single_communicator(),
      .incarnation = {},
      .loading = silent_,
      .progress = messages,
      .stop = stop
  };
  folder_.write("shop/nodes/user/num_nodes.csv", "40\n");
  folder_.write("shop/nodes/item/num_nodes.csv", "30\n");
  std::string bought;
  std::string joined;
  for (int user = 0; user < 40; ++user) {
    for (int i = 0; i < 5; ++i) {
      bought += std::to_string(user) + "," + std::to_string((user * 7 + i * i * 3) % 30) + "\n";
      joined += std::to_string(user) + "," + std::to_string((user + 1 + i * 5) % 40) + "\n";
    }
  }
  folder_.write("shop/edges/user__buys__item.csv", bought);
  folder_.write("club/nodes/member/num_nodes.csv", "40\n");
  folder_.write("club/edges/member__knows__member.csv", joined);
  struct Case {
    std::string folder;
    data::EdgeTypeName link;
    std::string option;
    std::string parts;
    std::string test;
  };
  for (const Case& of :
       {Case{"shop", {"user", "buys", "item"}, "--add-reverse", "2", "0.1"},
        Case{"club", {"member", "knows", "member"}, "--to-undirected", "3", "0"}}) {
    SCOPED_TRACE(of.folder);
    const std::string whole = folder_.path(of.folder + ".whole");
    const std::string parts = folder_.path(of.folder + ".parts");
    const std::string part = folder_.path(of.folder + ".part");
    const std::string link = of.link.source + "," + of.link.relation + "," + of.link.destination;
    ASSERT_EQ(
        run(
            {"data",
             "import",
             "--format",
             "edge-list",
             "--input",
             folder_.path(of.folder),
             "--output",
             whole,
             "--link",
             link,
             of.option}
        ),
        0
    );
    std::vector<std::string> command{
        "data",
        "partition",
        "--input",
        whole,
        "--output",
        parts,
        "--parts",
        of.parts,
        "--fanout",
        "3",
        "--batch-size",
        "4",
        "--validation",
        "0.2",
        "--test",
        of.test,
        "--negative-ratio",
        "1.5",
        "--disjoint-train",
        "0.25",
        "--split-seed",
        "4"
    };
    ASSERT_EQ(run(command), 0);
    EXPECT_EQ(run(command), 0) << "complete";
    command.back() = "5";
    EXPECT_EQ(run(command), contract::kExitConfiguration);
    ASSERT_EQ(run({"data", "partition", "--input", parts, "--extract", "1", "--output", part}), 0);
    ASSERT_EQ(run({"data", "verify", part}), 0);
    out_.str("");
    ASSERT_TRUE(inspect_data(part, InspectFormat::Text, console()));
    EXPECT_THAT(
        out_.str(),
        HasSubstr(
            "seed=4, validation=0.2, test=" + of.test + ", disjointTrain=0.25, negativeRatio=1.5"
        )
    );

    api::GnnJobSpec spec;
    spec.dataset.format = api::DatasetFormat::Native;
    spec.dataset.split = {
        .type = api::SplitType::RandomLink,
        .validation = api::Decimal{"0.2"},
        .test = api::Decimal{of.test},
        .seed = 4,
        .negative_ratio = api::Decimal{"1.5"},
        .disjoint_train = api::Decimal{"0.25"}
    };
    const auto load = [&](const std::string& path) {
      spec.dataset.path = path;
      return graph::load_dataset(spec.dataset, {.link = of.link, .accept_part = true}, silent_)
          .value();
    };
    const graph::Dataset before = load(whole);
    const tasks::LinkSplit expected = tasks::split_links_of(before, spec).value();
    LittleMemory little;
    const Status poor = check_link_split(before, tasks::link_split_options(spec), little);
    ASSERT_FALSE(poor);
    EXPECT_THAT(poor.error().message, HasSubstr("--memory: splitting 200 links takes "));
    const graph::Dataset dealt = load(parts);
    const graph::EdgeTypeData& links =
        dealt.edge_types[static_cast<size_t>(dealt.links->edge_type)];
    for (const graph::Dataset& dataset : {dealt, load(part)}) {
      const tasks::LinkSplit found = tasks::split_links_of(dataset, spec).value();
      for (const auto ids :
           {&tasks::LinkSplit::parts,
            &tasks::LinkSplit::train,
            &tasks::LinkSplit::train_links,
            &tasks::LinkSplit::validation,
            &tasks::LinkSplit::test}) {
        EXPECT_TRUE((found.*ids).equal(expected.*ids));
      }
      EXPECT_FALSE(found.validation_negatives.equal(expected.validation_negatives))
          << "nodes have other ids";
      for (const auto negatives :
           {&tasks::LinkSplit::validation_negatives, &tasks::LinkSplit::test_negatives}) {
        EXPECT_TRUE(in_original_ids(found.*negatives, dealt, links).equal(expected.*negatives));
        if (dealt.links->reverse_edge_type == dealt.links->edge_type) {
          EXPECT_TRUE(std::get<0>((found.*negatives).sort(1)).equal(found.*negatives))
              << "the smaller node of an undirected pair comes first";
        }
      }
    }

    // A job that splits in any other way splits anew, and says so.
    spec.dataset.path = parts;
    spec.task.link = api::EdgeType{
        .source = of.link.source, .relation = of.link.relation, .destination = of.link.destination
    };
    const auto open = [&] {
      messages.said.clear();
      return tasks::open_link_data(spec, context).value().split;
    };
    EXPECT_TRUE(open().parts.equal(expected.parts));
    EXPECT_THAT(messages.said, Not(HasSubstr("split anew")));
    const api::Split stored = spec.dataset.split;
    const auto differs = [&](const std::function<void(api::Split&)>& change) {
      spec.dataset.split = stored;
      change(spec.dataset.split);
      SCOPED_TRACE(data::describe(tasks::link_split_options(spec)));
      const tasks::LinkSplit anew = open();
      EXPECT_THAT(
          messages.said,
          ContainsRegex("its links were split by seed=4, .*; spec.dataset.split says .* split anew")
      );
      const tasks::LinkSplit drawn = tasks::split_links_of(load(whole), spec).value();
      EXPECT_TRUE(anew.parts.equal(drawn.parts)) << "links have the same ids";
      EXPECT_TRUE(anew.train.equal(drawn.train));
      EXPECT_EQ(anew.validation_negatives.sizes(), drawn.validation_negatives.sizes());
      spec.dataset.path = parts;
    };
    differs([](api::Split& split) { split.seed = 5; });
    differs([](api::Split& split) { split.validation = api::Decimal{"0.25"}; });
    differs([](api::Split& split) { split.test = api::Decimal{"0.15"}; });
    differs([](api::Split& split) { split.disjoint_train = api::Decimal{"0.5"}; });
    differs([](api::Split& split) { split.negative_ratio = api::Decimal{"2"}; });
  }
  const auto refused = [&](const std::vector<std::string>& options) {
    std::vector<std::string> command{
        "data",
        "partition",
        "--input",
        folder_.path("shop.whole"),
        "--output",
        folder_.path("unmade"),
        "--parts",
        "2",
        "--fanout",
        "3",
        "--batch-size",
        "4"
    };
    command.insert(command.end(), options.begin(), options.end());
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(run(command), contract::kExitConfiguration);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(refused({"--validation", "1.5"}), HasSubstr("--validation"));
  EXPECT_THAT(refused({"--test", "nan"}), HasSubstr("--test"));
  EXPECT_THAT(refused({"--validation", "0.5", "--test", "0.5"}), HasSubstr("links to train on"));
  EXPECT_THAT(refused({"--negative-ratio", "-1"}), HasSubstr("--negative-ratio: expected 0 to"));
  EXPECT_THAT(
      refused({"--split-seed", "9223372036854775808"}), HasSubstr("--split-seed: expected less")
  );
}

TEST_F(DataCommand, VerifyFindsADamagedFile) {
  const ImportRequest request = ring();
  ASSERT_TRUE(import_data(request, console()));
  const std::string labels = request.output.folder + "/nodes.node.labels.npy";
  std::string bytes = read_file(labels);
  bytes.back() = 1;
  folder_.write("out/nodes.node.labels.npy", bytes);
  EXPECT_THAT(
      verify_data(request.output.folder, console()).error().message,
      HasSubstr("nodes.node.labels.npy: damaged")
  );
}

TEST_F(DataCommand, ExitsWithTheContractsCodes) {
  OgbFiles().write(folder_);
  const std::string input = folder_.path("ring");
  const std::string output = folder_.path("cli");
  EXPECT_EQ(
      run(
          {"data",
           "import",
           "--format",
           "ogb",
           "--input",
           input,
           "--output",
           output,
           "--to-undirected",
           "--self-loops",
           "add-remaining"}
      ),
      0
  );
  EXPECT_EQ(load_native(output)->graph().num_edges(), 22);
  EXPECT_EQ(run({"data", "verify", output}), 0);
  EXPECT_EQ(run({"data", "inspect", output, "--json"}), 0);
  EXPECT_EQ(
      run({"data", "import", "--format", "csv", "--input", input, "--output", output}),
      contract::kExitConfiguration
  );
  EXPECT_EQ(
      run({"data", "import", "--format", "ogb", "--output", output}), contract::kExitConfiguration
  );
  const auto import_as = [&](const char* format, const char* option) {
    return run({"data", "import", "--format", format, "--input", input, "--output", output, option}
    );
  };
  EXPECT_EQ(import_as("package-index", "--coalesce"), contract::kExitConfiguration);
  EXPECT_EQ(import_as("ogb", "--seed=1"), contract::kExitConfiguration);
  EXPECT_EQ(import_as("package-tags", "--seed=1"), contract::kExitConfiguration);
  EXPECT_EQ(import_as("taobao", "--to-undirected"), contract::kExitConfiguration);
  EXPECT_EQ(import_as("taobao", "--features=8"), contract::kExitConfiguration);
  EXPECT_EQ(
      run({"data", "generate", "--shape", "mag", "--output", folder_.path("g")}),
      contract::kExitConfiguration
  );
  EXPECT_EQ(
      run(
          {"data",
           "generate",
           "--shape",
           "fake-dataset",
           "--scale",
           "0.01",
           "--output",
           folder_.path("g")}
      ),
      0
  );
  folder_.write("ring/raw/edge.csv.gz", "0,1\n");
  EXPECT_EQ(
      run({"data", "import", "--format", "ogb", "--input", input, "--output", folder_.path("b")}),
      contract::kExitData
  );
  EXPECT_FALSE(fs::exists(folder_.path("b")));
  fs::remove_all(folder_.path("ring/split"));
  OgbFiles files;
  files.write(folder_);
  fs::remove_all(folder_.path("ring/split"));
  EXPECT_EQ(
      run(
          {"data",
           "import",
           "--format",
           "ogb",
           "--input",
           input,
           "--output",
           folder_.path("n"),
           "--no-split"}
      ),
      0
  );
}

}  // namespace
}  // namespace gnn::app
