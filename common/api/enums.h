#pragma once

#include "common/api/gnn_job.h"

#include <array>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

/// The words that the API uses for our enums, in the order of the CRD.
namespace gnn::api {

template <class E, size_t N>
using EnumWords = std::array<std::pair<E, std::string_view>, N>;

template <class E>
struct EnumTable;  // specialised below for every enum of gnn_job.h

// clang-format off
template <> struct EnumTable<TaskType> {
  static constexpr EnumWords<TaskType, 3> kWords{{{TaskType::NodeClassification, "NodeClassification"}, {TaskType::GraphClassification, "GraphClassification"}, {TaskType::LinkPrediction, "LinkPrediction"}}};
};
template <> struct EnumTable<TaskMode> {
  static constexpr EnumWords<TaskMode, 2> kWords{{{TaskMode::Training, "Training"}, {TaskMode::Inference, "Inference"}}};
};
template <> struct EnumTable<DatasetFormat> {
  static constexpr EnumWords<DatasetFormat, 8> kWords{{{DatasetFormat::OGB, "OGB"}, {DatasetFormat::TU, "TU"}, {DatasetFormat::GIN, "GIN"}, {DatasetFormat::EdgeList, "EdgeList"}, {DatasetFormat::Reddit, "Reddit"}, {DatasetFormat::Taobao, "Taobao"}, {DatasetFormat::Native, "Native"}, {DatasetFormat::Synthetic, "Synthetic"}}};
};
template <> struct EnumTable<SyntheticShape> {
  static constexpr EnumWords<SyntheticShape, 5> kWords{{{SyntheticShape::Arxiv, "Arxiv"}, {SyntheticShape::Products, "Products"}, {SyntheticShape::Reddit, "Reddit"}, {SyntheticShape::FakeDataset, "FakeDataset"}, {SyntheticShape::Taobao, "Taobao"}}};
};
template <> struct EnumTable<SplitType> {
  static constexpr EnumWords<SplitType, 4> kWords{{{SplitType::Provided, "Provided"}, {SplitType::Random, "Random"}, {SplitType::KFold, "KFold"}, {SplitType::RandomLink, "RandomLink"}}};
};
template <> struct EnumTable<CoOccurrenceEdges> {
  static constexpr EnumWords<CoOccurrenceEdges, 2> kWords{{{CoOccurrenceEdges::Train, "Train"}, {CoOccurrenceEdges::All, "All"}}};
};
template <> struct EnumTable<NodeFeatures> {
  static constexpr EnumWords<NodeFeatures, 3> kWords{{{NodeFeatures::Provided, "Provided"}, {NodeFeatures::Constant, "Constant"}, {NodeFeatures::DegreeOneHot, "DegreeOneHot"}}};
};
template <> struct EnumTable<FeatureTransform> {
  static constexpr EnumWords<FeatureTransform, 2> kWords{{{FeatureTransform::None, "None"}, {FeatureTransform::RowNormalize, "RowNormalize"}}};
};
template <> struct EnumTable<SageParameters> {
  static constexpr EnumWords<SageParameters, 2> kWords{{{SageParameters::DGL, "DGL"}, {SageParameters::PyG, "PyG"}}};
};
template <> struct EnumTable<ParameterNames> {
  static constexpr EnumWords<ParameterNames, 2> kWords{{{ParameterNames::DGL, "DGL"}, {ParameterNames::PyG, "PyG"}}};
};
template <> struct EnumTable<Output> {
  static constexpr EnumWords<Output, 3> kWords{{{Output::Classes, "Classes"}, {Output::Scores, "Scores"}, {Output::Embeddings, "Embeddings"}}};
};
template <> struct EnumTable<Pooling> {
  static constexpr EnumWords<Pooling, 3> kWords{{{Pooling::Sum, "Sum"}, {Pooling::Mean, "Mean"}, {Pooling::Max, "Max"}}};
};
template <> struct EnumTable<Readout> {
  static constexpr EnumWords<Readout, 2> kWords{{{Readout::LastLayer, "LastLayer"}, {Readout::EveryLayer, "EveryLayer"}}};
};
template <> struct EnumTable<DecoderType> {
  static constexpr EnumWords<DecoderType, 2> kWords{{{DecoderType::Dot, "Dot"}, {DecoderType::MLP, "MLP"}}};
};
template <> struct EnumTable<ModelType> {
  static constexpr EnumWords<ModelType, 4> kWords{{{ModelType::GraphSAGE, "GraphSAGE"}, {ModelType::GCN, "GCN"}, {ModelType::GIN, "GIN"}, {ModelType::BipartiteSAGE, "BipartiteSAGE"}}};
};
template <> struct EnumTable<SamplingRule> {
  static constexpr EnumWords<SamplingRule, 2> kWords{{{SamplingRule::NewNodes, "NewNodes"}, {SamplingRule::AllSeen, "AllSeen"}}};
};
template <> struct EnumTable<NegativesType> {
  static constexpr EnumWords<NegativesType, 1> kWords{{{NegativesType::Binary, "Binary"}}};
};
template <> struct EnumTable<NegativeWeights> {
  static constexpr EnumWords<NegativeWeights, 2> kWords{{{NegativeWeights::Uniform, "Uniform"}, {NegativeWeights::Degree, "Degree"}}};
};
template <> struct EnumTable<DeviceChoice> {
  static constexpr EnumWords<DeviceChoice, 3> kWords{{{DeviceChoice::Auto, "Auto"}, {DeviceChoice::CPU, "CPU"}, {DeviceChoice::CUDA, "CUDA"}}};
};
template <> struct EnumTable<OptimizerType> {
  static constexpr EnumWords<OptimizerType, 2> kWords{{{OptimizerType::Adam, "Adam"}, {OptimizerType::SGD, "SGD"}}};
};
template <> struct EnumTable<ScheduleType> {
  static constexpr EnumWords<ScheduleType, 3> kWords{{{ScheduleType::Constant, "Constant"}, {ScheduleType::Step, "Step"}, {ScheduleType::Cosine, "Cosine"}}};
};
template <> struct EnumTable<ScheduleInterval> {
  static constexpr EnumWords<ScheduleInterval, 2> kWords{{{ScheduleInterval::Step, "Step"}, {ScheduleInterval::Epoch, "Epoch"}}};
};
template <> struct EnumTable<EmbeddingUpdate> {
  static constexpr EnumWords<EmbeddingUpdate, 2> kWords{{{EmbeddingUpdate::Dense, "Dense"}, {EmbeddingUpdate::Lazy, "Lazy"}}};
};
template <> struct EnumTable<SamplingDevice> {
  static constexpr EnumWords<SamplingDevice, 2> kWords{{{SamplingDevice::CPU, "CPU"}, {SamplingDevice::CUDA, "CUDA"}}};
};
template <> struct EnumTable<TopologyMemory> {
  static constexpr EnumWords<TopologyMemory, 3> kWords{{{TopologyMemory::Host, "Host"}, {TopologyMemory::ZeroCopy, "ZeroCopy"}, {TopologyMemory::Device, "Device"}}};
};
template <> struct EnumTable<Precision> {
  static constexpr EnumWords<Precision, 3> kWords{{{Precision::Float32, "Float32"}, {Precision::TF32, "TF32"}, {Precision::BFloat16, "BFloat16"}}};
};
template <> struct EnumTable<Sharding> {
  static constexpr EnumWords<Sharding, 3> kWords{{{Sharding::Slice, "Slice"}, {Sharding::Interleave, "Interleave"}, {Sharding::Owner, "Owner"}}};
};
template <> struct EnumTable<UnevenInputs> {
  static constexpr EnumWords<UnevenInputs, 3> kWords{{{UnevenInputs::Shadow, "Shadow"}, {UnevenInputs::Join, "Join"}, {UnevenInputs::Drop, "Drop"}}};
};
template <> struct EnumTable<EvaluationMode> {
  static constexpr EnumWords<EvaluationMode, 2> kWords{{{EvaluationMode::Sampled, "Sampled"}, {EvaluationMode::LayerWise, "LayerWise"}}};
};
template <> struct EnumTable<Part> {
  static constexpr EnumWords<Part, 3> kWords{{{Part::Train, "Train"}, {Part::Validation, "Validation"}, {Part::Test, "Test"}}};
};
template <> struct EnumTable<Metric> {
  static constexpr EnumWords<Metric, 5> kWords{{{Metric::Accuracy, "Accuracy"}, {Metric::AUC, "AUC"}, {Metric::AveragePrecision, "AveragePrecision"}, {Metric::Hits, "Hits"}, {Metric::MRR, "MRR"}}};
};
template <> struct EnumTable<FeatureMemory> {
  static constexpr EnumWords<FeatureMemory, 3> kWords{{{FeatureMemory::Host, "Host"}, {FeatureMemory::ZeroCopy, "ZeroCopy"}, {FeatureMemory::Device, "Device"}}};
};
template <> struct EnumTable<TestModel> {
  static constexpr EnumWords<TestModel, 2> kWords{{{TestModel::Last, "Last"}, {TestModel::Best, "Best"}}};
};
template <> struct EnumTable<ClassWeighting> {
  static constexpr EnumWords<ClassWeighting, 2> kWords{{{ClassWeighting::Balanced, "Balanced"}, {ClassWeighting::Given, "Given"}}};
};
template <> struct EnumTable<PlacementMode> {
  static constexpr EnumWords<PlacementMode, 2> kWords{{{PlacementMode::Replicated, "Replicated"}, {PlacementMode::Partitioned, "Partitioned"}}};
};
template <> struct EnumTable<CachePolicy> {
  static constexpr EnumWords<CachePolicy, 3> kWords{{{CachePolicy::Hotness, "Hotness"}, {CachePolicy::Degree, "Degree"}, {CachePolicy::None, "None"}}};
};
template <> struct EnumTable<Backend> {
  static constexpr EnumWords<Backend, 3> kWords{{{Backend::Auto, "Auto"}, {Backend::Gloo, "Gloo"}, {Backend::NCCL, "NCCL"}}};
};
template <> struct EnumTable<ImagePullPolicy> {
  static constexpr EnumWords<ImagePullPolicy, 3> kWords{{{ImagePullPolicy::Always, "Always"}, {ImagePullPolicy::IfNotPresent, "IfNotPresent"}, {ImagePullPolicy::Never, "Never"}}};
};
template <> struct EnumTable<FsGroupChangePolicy> {
  static constexpr EnumWords<FsGroupChangePolicy, 2> kWords{{{FsGroupChangePolicy::OnRootMismatch, "OnRootMismatch"}, {FsGroupChangePolicy::Always, "Always"}}};
};
template <> struct EnumTable<FailureReason> {
  static constexpr EnumWords<FailureReason, 11> kWords{{{FailureReason::Configuration, "Configuration"}, {FailureReason::Data, "Data"}, {FailureReason::OutOfMemory, "OutOfMemory"}, {FailureReason::StorageExceeded, "StorageExceeded"}, {FailureReason::Error, "Error"}, {FailureReason::NotStarted, "NotStarted"}, {FailureReason::PeerLost, "PeerLost"}, {FailureReason::Preempted, "Preempted"}, {FailureReason::Disrupted, "Disrupted"}, {FailureReason::PodDeleted, "PodDeleted"}, {FailureReason::NodeLost, "NodeLost"}}};
};
template <> struct EnumTable<FailureAction> {
  static constexpr EnumWords<FailureAction, 4> kWords{{{FailureAction::Restart, "Restart"}, {FailureAction::RestartNode, "RestartNode"}, {FailureAction::Fail, "Fail"}, {FailureAction::Ignore, "Ignore"}}};
};
template <> struct EnumTable<FailureRole> {
  static constexpr EnumWords<FailureRole, 2> kWords{{{FailureRole::Worker, "Worker"}, {FailureRole::Server, "Server"}}};
};
template <> struct EnumTable<ImportFormat> {
  static constexpr EnumWords<ImportFormat, 8> kWords{{{ImportFormat::OGB, "OGB"}, {ImportFormat::TU, "TU"}, {ImportFormat::GIN, "GIN"}, {ImportFormat::EdgeList, "EdgeList"}, {ImportFormat::Reddit, "Reddit"}, {ImportFormat::Taobao, "Taobao"}, {ImportFormat::PackageIndex, "PackageIndex"}, {ImportFormat::PackageTags, "PackageTags"}}};
};
template <> struct EnumTable<PartitionMethod> {
  static constexpr EnumWords<PartitionMethod, 4> kWords{{{PartitionMethod::Random, "Random"}, {PartitionMethod::Hotness, "Hotness"}, {PartitionMethod::LDG, "LDG"}, {PartitionMethod::METIS, "METIS"}}};
};
template <> struct EnumTable<SelfLoops> {
  static constexpr EnumWords<SelfLoops, 4> kWords{{{SelfLoops::Keep, "Keep"}, {SelfLoops::Remove, "Remove"}, {SelfLoops::Add, "Add"}, {SelfLoops::AddRemaining, "AddRemaining"}}};
};
template <> struct EnumTable<FeatureType> {
  static constexpr EnumWords<FeatureType, 2> kWords{{{FeatureType::Float32, "Float32"}, {FeatureType::Float16, "Float16"}}};
};
template <> struct EnumTable<GangProvider> {
  static constexpr EnumWords<GangProvider, 5> kWords{{{GangProvider::Auto, "Auto"}, {GangProvider::None, "None"}, {GangProvider::Native, "Native"}, {GangProvider::Coscheduling, "Coscheduling"}, {GangProvider::Volcano, "Volcano"}}};
};
template <> struct EnumTable<NetworkTopologyMode> {
  static constexpr EnumWords<NetworkTopologyMode, 2> kWords{{{NetworkTopologyMode::Hard, "hard"}, {NetworkTopologyMode::Soft, "soft"}}};
};
template <> struct EnumTable<CleanPodPolicy> {
  static constexpr EnumWords<CleanPodPolicy, 3> kWords{{{CleanPodPolicy::Running, "Running"}, {CleanPodPolicy::All, "All"}, {CleanPodPolicy::None, "None"}}};
};
// clang-format on

template <class E>
concept ApiEnum = std::is_enum_v<E> && requires { EnumTable<E>::kWords; };

/// The API's word for an enum value.
template <ApiEnum E>
[[nodiscard]] constexpr std::string_view to_string(E value) {
  for (const auto& [candidate, word] : EnumTable<E>::kWords) {
    if (candidate == value) return word;
  }
  return "";
}

/// The enum value of a word, if it is one.
template <ApiEnum E>
[[nodiscard]] constexpr std::optional<E> from_word(std::string_view word) {
  for (const auto& [candidate, name] : EnumTable<E>::kWords) {
    if (name == word) return candidate;
  }
  return std::nullopt;
}

}  // namespace gnn::api
