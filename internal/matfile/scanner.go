package matfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// scanner reads the few Python literals of a .npy header.
type scanner struct{ rest string }

func (s *scanner) skip() { s.rest = strings.TrimLeft(s.rest, " \t\r\n") }

// eat skips blanks and takes c if it comes next.
func (s *scanner) eat(c byte) bool {
	s.skip()
	if s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// word takes w if it comes next.
func (s *scanner) word(w string) bool {
	s.skip()
	rest, ok := strings.CutPrefix(s.rest, w)
	if ok {
		s.rest = rest
	}
	return ok
}

func (s *scanner) unexpected(want string) error {
	s.skip()
	if s.rest == "" {
		return fmt.Errorf("it ends before %s", want)
	}
	return fmt.Errorf("%q in place of %s", clip(s.rest), want)
}

// quoted takes a string in single or double quotes. No escape occurs in the
// strings that are accepted.
func (s *scanner) quoted() (string, bool) {
	s.skip()
	if s.rest == "" || (s.rest[0] != '\'' && s.rest[0] != '"') {
		return "", false
	}
	text, rest, ok := strings.Cut(s.rest[1:], s.rest[:1])
	if ok {
		s.rest = rest
	}
	return text, ok
}

func (s *scanner) boolean() (bool, error) {
	switch {
	case s.word("True"):
		return true, nil
	case s.word("False"):
		return false, nil
	}
	return false, s.unexpected("True or False")
}

// descr takes a dtype: a string, or the list that describes a structured one,
// returned as text for the message that refuses it.
func (s *scanner) descr() (string, error) {
	if text, ok := s.quoted(); ok {
		return text, nil
	}
	begin, depth := s.rest, 0
	for strings.HasPrefix(begin, "[") && s.rest != "" {
		switch s.rest[0] {
		case '[':
			depth++
		case ']':
			depth--
		}
		s.rest = s.rest[1:]
		if depth == 0 {
			return begin[:len(begin)-len(s.rest)], nil
		}
	}
	return "", s.unexpected("a dtype")
}

// shape takes a tuple of dimensions.
func (s *scanner) shape() (dims []int, err error) {
	if !s.eat('(') {
		return nil, s.unexpected("a shape in parentheses")
	}
	for !s.eat(')') {
		if len(dims) > 0 && !s.eat(',') {
			return nil, s.unexpected("',' or ')'")
		}
		if len(dims) > 0 && s.eat(')') {
			break
		}
		dim, err := s.dimension()
		if err != nil {
			return nil, err
		}
		dims = append(dims, dim)
	}
	return dims, nil
}

func (s *scanner) dimension() (int, error) {
	s.skip()
	negative := s.eat('-')
	digits := s.rest[:len(s.rest)-len(strings.TrimLeft(s.rest, "0123456789"))]
	if digits == "" {
		return 0, s.unexpected("a dimension")
	}
	s.rest = s.rest[len(digits):]
	if !s.word("L") {
		s.word("l")
	}
	if negative {
		return 0, fmt.Errorf("negative dimension -%s", clip(digits))
	}
	dim, err := strconv.Atoi(digits)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("dimension %s is too large", clip(digits))
	}
	return dim, err
}
