"""The virtual lab's qemu grade: a real firmware and a real kernel under the simulated iDRAC."""
