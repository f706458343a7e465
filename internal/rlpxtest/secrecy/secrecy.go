// Package secrecy helps to test that secrets are neither left in memory nor printed.
// It is apart from package rlpxtest so that package handshake can use it, which that one imports.
package secrecy

import (
	"bytes"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"unsafe"
)

// Find looks for byte strings in all the memory that is reachable from a pointer: fields that are
// not exported, spare capacity of slices, and the words of big.Ints, where a number is the other
// way round, among it. It returns the path to each place. Values that skip reports true for are not
// looked into.
func Find(root any, needles map[string][]byte, skip func(t reflect.Type) bool) (found []string) {
	all := map[string][]byte{}
	for name, needle := range needles {
		all[name] = needle
		reversed := slices.Clone(needle)
		slices.Reverse(reversed)
		all[name+", little-endian"] = reversed
	}
	Walk(root, skip, func(memory []byte, path string) {
		for name, needle := range all {
			if bytes.Contains(memory, needle) {
				found = append(found, name+" in "+path)
			}
		}
	})
	return found
}

// Walk calls see with each piece of memory that is reachable from a pointer, as Find looks at it,
// and the path to it.
func Walk(root any, skip func(t reflect.Type) bool, see func(memory []byte, path string)) {
	f := finder{see: see, skip: skip, seen: map[visit]bool{}}
	f.walk(reflect.ValueOf(root), fmt.Sprintf("%T", root))
}

type visit struct {
	at unsafe.Pointer
	t  reflect.Type
}

type finder struct {
	see  func(memory []byte, path string)
	skip func(reflect.Type) bool
	seen map[visit]bool
}

func (f *finder) walk(v reflect.Value, path string) {
	if !v.IsValid() || f.skip != nil && f.skip(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || f.seen[visit{v.UnsafePointer(), v.Type()}] {
			return
		}
		f.seen[visit{v.UnsafePointer(), v.Type()}] = true
		f.walk(v.Elem(), path)
	case reflect.Interface:
		if e := v.Elem(); e.IsValid() && e.Kind() != reflect.Pointer {
			copied := reflect.New(e.Type()).Elem() // what an interface holds has no address
			if e.CanInterface() {
				copied.Set(e)
				e = copied
			}
			f.walk(e, path)
		} else {
			f.walk(e, path)
		}
	case reflect.Struct:
		f.scan(v, path)
		for i := range v.NumField() {
			f.walk(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Array:
		f.scan(v, path)
		if !plain(v.Type().Elem().Kind()) {
			for i := range v.Len() {
				f.walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
			}
		}
	case reflect.Slice:
		if v.Cap() == 0 {
			return
		}
		size := v.Cap() * int(v.Type().Elem().Size())
		f.see(unsafe.Slice((*byte)(v.UnsafePointer()), size), path)
		if !plain(v.Type().Elem().Kind()) {
			for i := range v.Len() {
				f.walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
			}
		}
	case reflect.String:
		f.see(unsafe.Slice(unsafe.StringData(v.String()), v.Len()), path)
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			f.walk(it.Key(), path+" key")
			f.walk(it.Value(), path+" value")
		}
	}
}

// scan looks at the memory of v itself.
func (f *finder) scan(v reflect.Value, path string) {
	if v.CanAddr() && v.Type().Size() > 0 {
		f.see(unsafe.Slice((*byte)(v.Addr().UnsafePointer()), v.Type().Size()), path)
	}
}

// plain reports whether values of a kind refer to nothing.
func plain(k reflect.Kind) bool {
	return k >= reflect.Bool && k <= reflect.Complex128
}

// Formats are what package fmt makes of a value with every verb that prints one.
func Formats(v any) map[string]string {
	texts := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%o", "%b", "%c", "%U"} {
		texts[verb] = fmt.Sprintf(verb, v)
	}
	return texts
}

// Leaks returns the names of secrets, bytes of at least eight, that can be read from a text in any
// of the forms that package fmt prints bytes, words and whole numbers in.
func Leaks(text string, secrets map[string][]byte) (names []string) {
	for name, secret := range secrets {
		for _, form := range append(forms(secret[:8]), new(big.Int).SetBytes(secret).String()) {
			if bytes.Contains([]byte(text), []byte(form)) {
				names = append(names, fmt.Sprintf("%s as %q", name, form))
			}
		}
	}
	return names
}

// forms are the ways in which fmt prints eight bytes, or the 64-bit words that they may be part of.
func forms(b []byte) (forms []string) {
	word := uint64(0)
	for _, x := range b {
		word = word<<8 | uint64(x)
	}
	var swapped uint64
	for i := range b {
		swapped |= uint64(b[i]) << (8 * i)
	}
	inside := func(s string) string { return s[1 : len(s)-1] }
	forms = append(forms, inside(fmt.Sprintf("%v", b)), inside(fmt.Sprintf("%o", b)), inside(fmt.Sprintf("%b", b)), string(b),
		fmt.Sprintf("%x", b), fmt.Sprintf("%X", b), fmt.Sprintf("% x", b), fmt.Sprintf("%#v", b)[len("[]byte{"):len(fmt.Sprintf("%#v", b))-1])
	for _, w := range []uint64{word, swapped} {
		forms = append(forms, fmt.Sprint(w), fmt.Sprintf("%x", w), fmt.Sprintf("%X", w))
	}
	return forms
}
