#!/bin/busybox sh
# The first process of a guest: modules, network, Soft-RoCE; the host's files as its own, read-only; then the agent.
# The kernel's command line says lab.guest, lab.guests, lab.rails, lab.mtu, lab.show and lab.agent.
bb=/bin/busybox
$bb mkdir -p /proc /sys /host /new
$bb mount -t proc proc /proc
$bb mount -t sysfs sysfs /sys
for module in /modules/*; do $bb insmod "$module" || echo "lab: $module was not loaded"; done
read -r words </proc/cmdline
for word in $words; do
  case $word in lab.*=*) export "${word#lab.}" ;; esac
done

$bb mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=1048576,cache=loose host /host
$bb mount --bind /host /new
$bb mount -t tmpfs -o mode=1777 tmpfs /new/tmp
$bb mount -t tmpfs -o mode=755 tmpfs /new/run
$bb mount -t tmpfs -o mode=700 tmpfs /new/root  # the ssh server refuses a home that others may write
$bb mount -t proc proc /new/proc
$bb mount -t sysfs sysfs /new/sys
$bb mount -t devtmpfs devtmpfs /new/dev
$bb mkdir -p /new/dev/shm /new/dev/pts
$bb mount -t tmpfs tmpfs /new/dev/shm
$bb mount -t devpts devpts /new/dev/pts
# What lies below a folder that was just hidden is shown again.
for folder in $($bb echo "$show" | $bb tr : ' '); do
  [ -d "/new$folder" ] && continue
  $bb mkdir -p "/new$folder" && $bb mount --bind "/host$folder" "/new$folder"
done

# eth0 is for control, the others are rails. Each has its own subnet: 10.98.<0, rail + 1>.<guest + 1>.
hosts="127.0.0.1 localhost"
i=0
while [ $i -lt "$guests" ]; do
  hosts="$hosts
10.98.0.$((i + 1)) lab$i"
  i=$((i + 1))
done
echo "$hosts" >/new/run/hosts
$bb mount --bind /new/run/hosts /new/etc/hosts
$bb hostname "lab$guest"
$bb ip link set lo up
i=0
while [ $i -le "$rails" ]; do
  name=rail$((i - 1))
  [ $i = 0 ] && name=ctl
  $bb ip link set eth$i name $name
  [ $i = 0 ] || $bb ip link set $name mtu "$mtu"
  $bb ip addr add 10.98.$i.$((guest + 1))/24 dev $name
  $bb ip link set $name up
  [ $i = 0 ] || $bb chroot /new /usr/bin/env PATH=/usr/bin:/usr/sbin:/bin:/sbin rdma link add rxe$((i - 1)) type rxe netdev $name
  i=$((i + 1))
done
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LC_ALL=C
$bb chroot /new /usr/bin/python3 -S "$agent"
$bb poweroff -f
