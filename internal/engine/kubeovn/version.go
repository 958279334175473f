package kubeovn

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version is a release of Kube-OVN. The zero value is an unknown one.
type Version struct{ Major, Minor, Patch int }

// TestedVersion is the release that the end-to-end tests run. Others may behave differently.
var TestedVersion = Version{1, 16, 2}

// OldestVersion is the oldest release that Sallyport works with.
var OldestVersion = Version{1, 16, 0}

// ParseImageVersion reads the version from the image of Kube-OVN's controller, such as
// docker.io/kubeovn/kube-ovn:v1.16.2. An image with another kind of tag, or with a digest only, has no known version.
func ParseImageVersion(image string) (Version, bool) {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	core, _, _ := strings.Cut(tag, "-")
	return ParseVersion(core)
}

// ParseVersion reads a version such as 1.16.2 or v1.16.2.
func ParseVersion(text string) (Version, bool) {
	parts := strings.Split(strings.TrimPrefix(text, "v"), ".")
	if len(parts) != 3 {
		return Version{}, false
	}
	var out Version
	for i, field := range []*int{&out.Major, &out.Minor, &out.Patch} {
		n, err := strconv.ParseUint(parts[i], 10, 16)
		if err != nil {
			return Version{}, false
		}
		*field = int(n)
	}
	return out, out != Version{}
}

// IsKnown reports whether the version could be read.
func (v Version) IsKnown() bool { return v != Version{} }

// IsTested reports whether the end-to-end tests run the same minor release.
func (v Version) IsTested() bool {
	return v.Major == TestedVersion.Major && v.Minor == TestedVersion.Minor
}

// Compare orders versions.
func (v Version) Compare(o Version) int {
	return cmp.Or(cmp.Compare(v.Major, o.Major), cmp.Compare(v.Minor, o.Minor), cmp.Compare(v.Patch, o.Patch))
}

// String prints the version as Kube-OVN's releases are called, without the "v".
func (v Version) String() string {
	if !v.IsKnown() {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}
