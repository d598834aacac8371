#pragma once

#include "controller/reconcile/pass.h"

#include <cstdint>
#include <optional>
#include <string>

/// The object by which a scheduler places the pods of an attempt together. It has those with which the
/// attempt begins: the workers and the servers without which they cannot run, unless these run already.
/// A pod that replaces another one later is placed alone.
namespace gnn::reconcile {

/// Sets status.scheduling: before the attempt has a pod, by what the spec asks for and the cluster
/// offers; from then on by what its pods say.
void choose_group(Pass& pass);

/// For a gang that is not made in this pass: the status names a group only of pods that have been made,
/// so that a gang that waits for its admission is told apart from pods that wait with their group.
void forget_group(Pass& pass);

/// Why it cannot be known at present what becomes of the group that the pods to come are to be in; empty:
/// it is known, or there is none. No pod is made then.
[[nodiscard]] std::string why_group_is_unknown(const Pass& pass);

/// Whether the attempt's pods are placed as a group.
[[nodiscard]] bool has_group(const Pass& pass);

/// Whether they can be: the group is there, or about to be made. It is not if its API is served no more,
/// somebody deletes it, or another object has its name.
[[nodiscard]] bool group_stands(const Pass& pass);

/// Whether the gang was placed before: what is missing since then takes part in no group.
[[nodiscard]] bool was_placed(const Pass& pass);

/// Which group new pods of the attempt name; nothing if none.
[[nodiscard]] std::optional<objects::GroupMembership> group_of_new_workers(const Pass& pass);
[[nodiscard]] std::optional<objects::GroupMembership> group_of_new_servers(const Pass& pass);

/// Has a new pod that names a group placed by a scheduler that knows such groups, if its job names none.
void choose_scheduler(const Pass& pass, objects::Pod& pod);

/// Somebody else's object of the group's name; nullptr if there is none.
[[nodiscard]] const objects::PodGroup* foreign_group(const Pass& pass);

/// Creates the attempt's group if it is missing and still needed. To be called before its pods are.
void create_group(Pass& pass);

/// Deletes the groups of other attempts, and that of this one if its pods are not in it.
void remove_other_groups(Pass& pass);
void remove_all_groups(Pass& pass);

/// Whether the pod waits to be placed with a group that the operator has made, of any attempt.
[[nodiscard]] bool waits_for_group(const Pass& pass, const objects::Pod& pod);

/// Whether the attempt's group waits in a queue: its scheduler does not try to place it yet.
[[nodiscard]] bool is_queued(const Pass& pass);

/// What the scheduler says of the attempt's group; empty if it says nothing, or has placed it.
[[nodiscard]] std::string why_group_waits(const Pass& pass);

}  // namespace gnn::reconcile
