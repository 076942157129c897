// What is a PCI device or a network name? The tables of vendors, classes and name patterns, in one place.
#pragma once

#include <optional>
#include <string_view>

#include "topology/machine.hpp"

namespace twohop::topology {

/// By PCI vendor id.
Vendor vendor_of(uint16_t pci_vendor);

/// A display or accelerator class (0x03.., 0x12.., 0x0b40..), whoever made it.
bool has_gpu_class(uint32_t pci_class);
/// A GPU to reduce on: has_gpu_class, from a vendor of such GPUs. Management controllers' and clouds' displays are not.
bool is_gpu(const PciNode& node);
bool is_nic_class(uint32_t pci_class);         // Ethernet, InfiniBand (0x0207.., 0x0c06..), other networks
bool is_infiniband_class(uint32_t pci_class);  // 0x0207.., 0x0c06..
bool is_wireless_class(uint32_t pci_class);
bool is_nvswitch_class(uint32_t pci_class);

/// By the names that kernels, udev and libraries give. Nothing for a name that says nothing.
std::optional<NetKind> rdma_kind_of_name(std::string_view name);  // kRdma or kOtherRdma
NetKind interface_kind_of_name(std::string_view name);            // kVirtual, kWireless, else kPhysical
bool is_bond_name(std::string_view name);
bool is_infiniband_interface(std::string_view name);  // ib0, ibs1, hsi0

/// What a NIC is by vendor and device id alone; kRdma where nothing is known of it.
NetKind kind_of_nic_device(const PciNode& node);
/// What an RDMA port speaks, by its PCI class and name; kUnknown where they do not tell.
LinkLayer layer_of(const PciNode* node, std::string_view name);

}  // namespace twohop::topology
