module trainyard.dev/toolchain/pause

go 1.26.0
