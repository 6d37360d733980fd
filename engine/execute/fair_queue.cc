// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/fair_queue.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/check.h"

namespace vicinal {
namespace {

// A batch request waits for at most 16 times its own cost of interactive ones, and costs them a seventeenth.
double WeightOf(Priority priority) { return priority == Priority::kInteractive ? 16.0 : 1.0; }

// Members of a level up to which idle ones are kept: they will come back.
constexpr size_t kKeptIdle = 64;
// Up to which they are kept for their debts. Beyond it debts are forgiven: it takes as many principals or models.
constexpr size_t kMaxIdle = 4096;

}  // namespace

void FairQueue::Member::Add(double predicted, uint64_t number, double now) {
  if (waiting == 0) {
    begins = std::max(begins, now);
    oldest = number;
  }
  ++waiting;
  seconds += predicted;
}

void FairQueue::Member::Take(double predicted, double charge) {
  --waiting;
  ++running;
  seconds = waiting > 0 ? std::max(0.0, seconds - predicted) : 0.0;
  begins += charge;
}

bool FairQueue::Member::Before(const Member& other) const {
  return begins != other.begins ? begins < other.begins : oldest < other.oldest;
}

FairQueue::Place FairQueue::PlaceOf(const QueuedRequest& request, uint64_t number) {
  return {request.limits.deadline.value_or(MonotonicTime::max()), number};
}

template <class Members>
typename Members::mapped_type& FairQueue::NextOf(Members* members) {
  typename Members::mapped_type* next = nullptr;
  for (auto& [name, member] : *members) {
    if (member.waiting > 0 && (next == nullptr || member.Before(*next))) next = &member;
  }
  VICINAL_CHECK(next != nullptr);
  return *next;
}

template <class Members>
int64_t FairQueue::WaitingIn(const Members& members) {
  return std::count_if(members.begin(), members.end(), [](const auto& member) { return member.second.waiting > 0; });
}

void FairQueue::Push(Entry entry) {
  const uint64_t number = ++arrivals_;
  const QueuedRequest& request = entry.request;
  Lane& lane = lanes_[request.requester.priority];
  lane.weight = WeightOf(request.requester.priority);
  Client& client = lane.clients[request.requester.principal];
  Flow& flow = client.flows[{request.key.graph, request.key.model}];
  lane.Add(entry.predicted, number, now_);
  client.Add(entry.predicted, number, lane.now);
  flow.Add(entry.predicted, number, client.now);
  const Place place = PlaceOf(request, number);
  flow.entries.emplace(place, std::move(entry));
  ++size_;
}

double FairQueue::RidePart(const Client& client) {
  // The last request of a client delays none of its own.
  if (client.waiting == 1) return 1.0;
  return 1.0 / static_cast<double>(std::max<int64_t>(2, WaitingIn(client.flows)));
}

double FairQueue::RideLimit(const Client& client, const Flow& flow) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [pair, other] : client.flows) {
    if (&other != &flow && other.waiting > 0) least = std::min(least, other.begins);
  }
  return std::isinf(least) ? client.now : least;
}

FairQueue::Served FairQueue::Remove(Lane* lane, Client* client, Flow* flow, std::map<Place, Entry>::iterator entry,
                                    double charge, bool rides) {
  Served served;
  served.entry = std::move(entry->second);
  flow->entries.erase(entry);
  const double predicted = served.entry.predicted;
  lane->Take(predicted, charge / lane->weight);
  client->Take(predicted, charge);
  flow->Take(predicted, rides ? 0.0 : charge);  // a ride's is known to be within its limit when it is settled
  // Those that remain are ordered by deadline: their first is close enough.
  if (flow->waiting > 0) flow->oldest = flow->entries.begin()->first.second;
  if (client->waiting > 0) client->oldest = NextOf(&client->flows).oldest;
  if (lane->waiting > 0) lane->oldest = NextOf(&lane->clients).oldest;
  --size_;
  ++running_;
  const QueuedRequest& request = served.entry.request;
  served.ticket = {request.requester, {request.key.graph, request.key.model}, charge, rides};
  return served;
}

FairQueue::Served FairQueue::Pop() {
  VICINAL_CHECK(size_ > 0);
  Lane& lane = NextOf(&lanes_);
  Client& client = NextOf(&lane.clients);
  Flow& flow = NextOf(&client.flows);
  // Who is served in turn has the smallest time of its level: the present.
  now_ = std::max(now_, lane.begins);
  lane.now = std::max(lane.now, client.begins);
  client.now = std::max(client.now, flow.begins);
  const auto entry = flow.entries.begin();
  return Remove(&lane, &client, &flow, entry, entry->second.leading, false);
}

std::vector<FairQueue::Served> FairQueue::TakeCompany(const Ticket& ticket,
                                                      const std::function<bool(const Entry& entry)>& accept) {
  std::vector<Served> company;
  Lane& lane = lanes_.at(ticket.requester.priority);
  Client* const leader = &lane.clients.at(ticket.requester.principal);
  std::vector<Client*> clients = {leader};
  for (auto& [principal, client] : lane.clients) {
    if (&client != leader && client.waiting > 0) clients.push_back(&client);
  }
  std::sort(clients.begin() + 1, clients.end(), [](const Client* a, const Client* b) { return a->Before(*b); });
  double paid = ticket.charged;  // by the leader
  for (Client* client : clients) {
    const auto flow = client->flows.find(ticket.pair);
    if (flow == client->flows.end() || flow->second.waiting == 0) continue;
    const bool rides = client != leader;
    const double limit = rides ? paid * RidePart(*client) : 0.0;
    double charged = 0.0;
    auto& entries = flow->second.entries;
    for (auto entry = entries.begin(); entry != entries.end();) {
      const auto candidate = entry++;
      const double charge = candidate->second.joining;
      if ((rides && charged + charge > limit) || !accept(candidate->second)) continue;
      charged += charge;
      company.push_back(Remove(&lane, client, &flow->second, candidate, charge, rides));
    }
    if (!rides) paid += charged;
  }
  return company;
}

std::optional<FairQueue::Served> FairQueue::PopInteractive(const std::function<bool(const Entry& entry)>& accept) {
  const auto lane = lanes_.find(Priority::kInteractive);
  if (lane == lanes_.end()) return std::nullopt;
  Client* best_client = nullptr;
  Flow* best_flow = nullptr;
  for (auto& [principal, client] : lane->second.clients) {
    if (client.waiting == 0 || (best_client != nullptr && best_client->Before(client))) continue;
    for (auto& [pair, flow] : client.flows) {
      if (flow.waiting == 0 || !accept(flow.entries.begin()->second)) continue;
      if (best_client == &client && best_flow->Before(flow)) continue;
      best_client = &client;
      best_flow = &flow;
    }
  }
  if (best_client == nullptr) return std::nullopt;
  const auto entry = best_flow->entries.begin();
  return Remove(&lane->second, best_client, best_flow, entry, entry->second.leading, false);
}

bool FairQueue::HasInteractive(const std::function<bool(const Entry& entry)>& accept) const {
  const auto lane = lanes_.find(Priority::kInteractive);
  if (lane == lanes_.end() || lane->second.waiting == 0) return false;
  for (const auto& [principal, client] : lane->second.clients) {
    for (const auto& [pair, flow] : client.flows) {
      if (flow.waiting > 0 && accept(flow.entries.begin()->second)) return true;
    }
  }
  return false;
}

void FairQueue::Settle(const Ticket& ticket, double seconds, double run) {
  const double difference = seconds - ticket.charged;
  Lane& lane = lanes_.at(ticket.requester.priority);
  Client& client = lane.clients.at(ticket.requester.principal);
  Flow& flow = client.flows.at(ticket.pair);
  lane.begins += difference / lane.weight;
  if (ticket.rides) {
    client.begins = std::max(client.begins - ticket.charged, std::min(client.begins + difference, lane.now + run));
    flow.begins = std::max(flow.begins, std::min(flow.begins + seconds, RideLimit(client, flow)));
  } else {
    client.begins += difference;
    flow.begins += difference;
  }
  --lane.running;
  --client.running;
  --flow.running;
  --running_;
  Prune();
}

template <class Members>
void FairQueue::Forget(Members* members, double now) {
  if (members->size() <= kKeptIdle) return;
  const bool all = members->size() > kMaxIdle;
  std::erase_if(*members, [now, all](const auto& named) {
    const Member& member = named.second;
    return member.waiting == 0 && member.running == 0 && (all || member.begins <= now);
  });
}

void FairQueue::Prune() {
  const bool over = size_ == 0 && running_ == 0;
  if (over) now_ = 0.0;
  for (auto& [priority, lane] : lanes_) {
    if (over) lane.begins = lane.now = 0.0;
    for (auto& [principal, client] : lane.clients) {
      if (over) client.begins = client.now = 0.0;
      for (auto& [pair, flow] : client.flows) {
        if (over) flow.begins = 0.0;
      }
      Forget(&client.flows, client.now);
    }
    Forget(&lane.clients, lane.now);
  }
}

double FairQueue::seconds() const {
  double seconds = 0.0;
  for (const auto& [priority, lane] : lanes_) seconds += lane.seconds;
  return seconds;
}

int64_t FairQueue::waiting_of(const std::string& principal) const {
  int64_t waiting = 0;
  for (const auto& [priority, lane] : lanes_) {
    const auto client = lane.clients.find(principal);
    if (client != lane.clients.end()) waiting += client->second.waiting;
  }
  return waiting;
}

template <class Members>
double FairQueue::SecondsBefore(const Members& members, const typename Members::mapped_type* member, double now,
                                double before) {
  double turn = now;  // the virtual time at which the work begins
  if (member != nullptr) {
    turn = (member->waiting > 0 ? member->begins : std::max(member->begins, now)) + before / member->weight;
  }
  double seconds = before;
  for (const auto& [name, other] : members) {
    if (&other == member || other.waiting == 0) continue;
    seconds += std::clamp((turn - other.begins) * other.weight, 0.0, other.seconds);
  }
  return seconds;
}

double FairQueue::SecondsBefore(const QueuedRequest& request) const {
  const auto known = [](const auto& members, const auto& name) {
    const auto found = members.find(name);
    return found == members.end() ? nullptr : &found->second;
  };
  const Lane* lane = known(lanes_, request.requester.priority);
  const Client* client = lane != nullptr ? known(lane->clients, request.requester.principal) : nullptr;
  const Flow* flow = client != nullptr ? known(client->flows, Pair{request.key.graph, request.key.model}) : nullptr;
  double before = 0.0;
  const Place place = PlaceOf(request, arrivals_ + 1);
  if (flow != nullptr) {
    for (const auto& [other, entry] : flow->entries) {
      if (other < place) before += entry.predicted;
    }
  }
  if (client != nullptr) before = SecondsBefore(client->flows, flow, client->now, before);
  if (lane != nullptr) before = SecondsBefore(lane->clients, client, lane->now, before);
  return SecondsBefore(lanes_, lane, now_, before);
}

void FairQueue::ForEach(const std::function<void(const Entry& entry)>& visit) const {
  std::map<uint64_t, const Entry*> by_age;
  for (const auto& [priority, lane] : lanes_) {
    for (const auto& [principal, client] : lane.clients) {
      for (const auto& [pair, flow] : client.flows) {
        for (const auto& [place, entry] : flow.entries) by_age[place.second] = &entry;
      }
    }
  }
  for (const auto& [number, entry] : by_age) visit(*entry);
}

}  // namespace vicinal
