#include "cli/store_flags.h"

#include <fmt/format.h>

#include "base/error.h"
#include "measure/resume.h"

namespace starling {

void StoreFlags::add_to(CLI::App& command) {
  command
      .add_option("--store", url_,
                  "with --elastic: keep the roster in etcd, e.g. etcd://10.0.0.1:2379/my-job, so "
                  "that who joins finds the members there, and the same command goes on from the "
                  "last checkpoint when all have gone")
      ->group("Workers that come and go");
}

RosterStore StoreFlags::store(const LaunchPlan& plan) const {
  parse_etcd_url(url_);
  if (plan.secret.empty()) {
    throw Error("a job with a --store is known by its secret", "give --secret-file");
  }
  return RosterStore(url_, plan.secret);
}

Job job_for_asking(const LaunchPlan& plan) {
  Job job;
  job.secret = plan.secret;
  job.encryption.links = named<Encryption::Links>(plan.tls);
  if (!plan.certificates.empty())
    job.encryption.certificates = read_certificates(plan.certificates);
  job.timeout = plan.timeout;
  job.network = plan.network;
  return job;
}

StoredStart::StoredStart(const StoreFlags& flags, const LaunchPlan& plan)
    : shares_folder_name_(plan.machines > 1 && !plan.place) {
  if (!flags.given()) return;
  store_.emplace(flags.store(plan));
  found_ = find_remains(*store_, job_for_asking(plan));
}

std::string StoredStart::run_to_resume(const std::string& run) const {
  if (!store_) return "";
  if (shares_folder_name_ && run.empty()) {
    throw Error("the machines of a job with a --store have their runs in folders of one name",
                "give it with --run");
  }
  const KeptJob& kept = found_.job;
  if (kept.start == 0 && !run.empty() && has_checkpoint(run)) {  // which a new run would remove
    throw Error(
        fmt::format("{} has a checkpoint of a job that {} does not know", run, store_->url()),
        "go on with it by --resume, or name another folder");
  }
  if (kept.run.empty() || kept.ended) return "";
  if (!run.empty() && std::filesystem::absolute(run) != kept.run) {
    throw Error(fmt::format("the job at {} has its run in {}", store_->url(), kept.run),
                "leave out --run, or name another prefix for another job");
  }
  if (!has_checkpoint(kept.run)) {
    if (kept.generation > 0) {
      fmt::print(stderr, "note: the job at {} has no checkpoint in {}; it begins anew\n",
                 store_->url(), kept.run);
    }
    return "";
  }
  fmt::print(stderr, "the job at {} is started once more, from its last checkpoint\n",
             store_->url());
  return kept.run;
}

void StoredStart::enter(const Settings& settings, const std::filesystem::path& run,
                        LaunchPlan& plan) {
  if (!store_) return;
  if (!settings.elastic.on) {
    throw Error("--store is for workers that come and go", "give --elastic too");
  }
  const bool keeps = !settings.checkpoint.every.empty() && !run.empty();
  plan.store = store_->url();
  if (!plan.has_first()) return;
  plan.store_start = enter_start(*store_, found_, keeps ? absolute(run).string() : "");
}

}  // namespace starling
