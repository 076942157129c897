// Which members does each part of a machine have in JSON? One list for the writer and the reader: visit(name, member).
#pragma once

#include <type_traits>

#include "topology/machine.hpp"

namespace twohop::topology {

template <class Visit, class T>
void fields_of(T& n, Visit&& visit) requires(std::is_same_v<std::remove_const_t<T>, NumaNode>) {
  visit("os_index", n.os_index);
  visit("package", n.package);
  visit("cpus", n.cpus);
  visit("arch", n.arch);
  visit("vendor", n.vendor);
  visit("family", n.family);
  visit("model", n.model);
}

template <class Visit, class T>
void fields_of(T& p, Visit&& visit) requires(std::is_same_v<std::remove_const_t<T>, PciNode>) {
  visit("bus", p.bus);
  visit("parent", p.parent);
  visit("numa", p.numa);
  visit("host_bridge", p.host_bridge);
  visit("is_switch", p.is_switch);
  visit("is_port", p.is_port);
  visit("class", p.pci_class);
  visit("vendor", p.vendor);
  visit("device", p.device);
  visit("subsystem_vendor", p.subsystem_vendor);
  visit("subsystem_device", p.subsystem_device);
  visit("gt_per_s", p.gt_per_s);
  visit("width", p.width);
}

template <class Visit, class T>
void fields_of(T& g, Visit&& visit) requires(std::is_same_v<std::remove_const_t<T>, Gpu>) {
  visit("index", g.index);
  visit("name", g.name);
  visit("pci", g.pci);
  visit("numa", g.numa);
  visit("vendor", g.vendor);
  visit("uuid", g.uuid);
  visit("model", g.model);
  visit("rank", g.rank);
  visit("sm", g.sm);
  visit("gcn", g.gcn);
  visit("arch", g.arch);
  visit("mlopart", g.mlopart);
  visit("gdr", g.gdr);
  visit("integrated", g.integrated);
}

template <class Visit, class T>
void fields_of(T& n, Visit&& visit) requires(std::is_same_v<std::remove_const_t<T>, NetPort>) {
  visit("name", n.name);
  visit("port", n.port);
  visit("dev", n.dev);
  visit("interface", n.interface);
  visit("pci", n.pci);
  visit("numa", n.numa);
  visit("kind", n.kind);
  visit("layer", n.layer);
  visit("state", n.state);
  visit("gbit_per_s", n.gbit_per_s);
  visit("guid", n.guid);
  visit("gdr", n.gdr);
  visit("collective", n.collective);
  visit("max_connections", n.max_connections);
  visit("latency_us", n.latency_us);
  visit("bond", n.bond);
  visit("slaves", n.slaves);
}

template <class Visit, class T>
void fields_of(T& l, Visit&& visit) requires(std::is_same_v<std::remove_const_t<T>, GpuLink>) {
  visit("gpu", l.gpu);
  visit("peer", l.peer);
  visit("to_switch", l.to_switch);
  visit("kind", l.kind);
  visit("count", l.count);
  visit("gbit_per_s", l.gbit_per_s);
}

template <class Visit, class T>
void fields_of(T& g, Visit&& visit) requires(std::is_same_v<std::remove_const_t<T>, GivenPaths>) {
  visit("gpu_gpu", g.gpu_gpu);
  visit("gpu_net", g.gpu_net);
  visit("net_net", g.net_net);
}

template <class Visit, class T>
void fields_of(T& n, Visit&& visit) requires(std::is_same_v<std::remove_const_t<T>, Note>) {
  visit("level", n.level);
  visit("text", n.text);
}

template <class Visit, class T>
void fields_of(T& m, Visit&& visit) requires(std::is_same_v<std::remove_const_t<T>, Machine>) {
  visit("kind", m.kind);
  visit("source", m.source);
  visit("numas", m.numas);
  visit("pci", m.pci);
  visit("gpus", m.gpus);
  visit("nets", m.nets);
  visit("links", m.links);
  visit("given", m.given);
  visit("notes", m.notes);
}

}  // namespace twohop::topology
