// Package version tells which wgemm this is.
package version

import "runtime/debug"

// String is the module's version, or the revision of a build without one.
func String() string {
	const none = "(devel)"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return none
	}
	if v := info.Main.Version; v != "" && v != none {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return none
}
