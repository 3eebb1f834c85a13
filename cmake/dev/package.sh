# Read by ./dev: Attune as others get it.

make_package() {
  # What is there to install: the libraries, and the program where the source has it.
  targets='attune_layers'
  [ ! -d examples/attune ] || targets='attune_layers attune'
  # shellcheck disable=SC2086  # $targets is a list
  configure_and_build release $targets

  for way in find_package pkg-config shared add_subdirectory fetch_content; do
    step "A consumer, by way of $way" "To look at it by hand: build/release/package/consume/$way" \
      tests/package/consume $way build/release
  done

  rm -rf build/package
  step "Debian's packages" 'cpack says above what it lacks.' \
    cpack --config build/release/CPackConfig.cmake -G DEB -B build/package
  for deb in build/package/*.deb; do
    say "$deb ($(($(wc -c <"$deb") / 1024)) KiB)"
    dpkg-deb -f "$deb" Package Version Architecture Installed-Size Depends
    dpkg-deb -x "$deb" build/package/root
  done
  if [ -x build/package/root/usr/bin/attune ]; then
    step 'The packaged program' 'It runs from build/release/bin?' build/package/root/usr/bin/attune --version
  fi
}
