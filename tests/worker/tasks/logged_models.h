#pragma once

#include "common/hash.h"
#include "worker/graph/block.h"
#include "worker/nn/models/link_model.h"
#include "worker/nn/models/model.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gnn::tasks {

/// What a rank was given to compute with, bit by bit: a number for each batch.
class BatchLog {
 public:
  void begin() { batches_.push_back(kFnvOffset); }
  void add(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const at::Tensor bytes = tensor.contiguous();
    uint64_t& hash = batches_.back();
    hash = fnv1a(
        std::span(static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()), hash
    );
  }
  void add(const graph::Block& block) {
    add(block.indptr);
    add(block.indices);
  }
  [[nodiscard]] const std::vector<uint64_t>& batches() const { return batches_; }

 private:
  std::vector<uint64_t> batches_;
};

/// Tells what it is given.
class LoggedNodeModel final : public nn::NodeModel {
 public:
  explicit LoggedNodeModel(std::shared_ptr<nn::NodeModel> model)
      : model_(register_module("model", std::move(model))) {}
  at::Tensor forward(const at::Tensor& x, const std::vector<graph::Block>& blocks) override {
    log.begin();
    log.add(x);
    for (const graph::Block& block : blocks) log.add(block);
    return model_->forward(x, blocks);
  }
  [[nodiscard]] int64_t num_layers() const override { return model_->num_layers(); }
  [[nodiscard]] nn::MessagePassing& conv(int64_t layer) override { return model_->conv(layer); }
  [[nodiscard]] at::Tensor activate(int64_t layer, at::Tensor h) override {
    return model_->activate(layer, std::move(h));
  }

  BatchLog log;

 private:
  const std::shared_ptr<nn::NodeModel> model_;
};

/// Tells what it is given.
class LoggedLinkModel final : public nn::LinkModel {
 public:
  explicit LoggedLinkModel(std::shared_ptr<nn::LinkModel> model)
      : model_(register_module("model", std::move(model))) {}
  at::Tensor forward(
      const nn::TypedInputs& x, const nn::TypedBlocks& blocks, const nn::LinkRows& links
  ) override {
    log.begin();
    for (const at::Tensor& rows : x) log.add(rows.defined() ? rows.detach() : rows);
    for (const auto& layer : blocks)
      for (const graph::Block& block : layer) log.add(block);
    log.add(links.source_rows);
    log.add(links.destination_rows);
    return model_->forward(x, blocks, links);
  }
  [[nodiscard]] int64_t num_layers() const override { return model_->num_layers(); }
  [[nodiscard]] std::vector<int64_t> reads() const override { return model_->reads(); }

  BatchLog log;

 private:
  const std::shared_ptr<nn::LinkModel> model_;
};

}  // namespace gnn::tasks
