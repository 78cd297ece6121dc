// SPDX-License-Identifier: Apache-2.0
import { Component, createElement, type ComponentChildren, type VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';

// A component that renders again only when `same` says no.
export function memo<P extends object>(render: (props: P) => ComponentChildren, same: (a: P, b: P) => boolean) {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: P) {
      return !same(this.props, next);
    }
    override render() {
      return createElement(Inner, this.props);
    }
  }
  function Inner(props: P) {
    return render(props) as VNode;
  }
  return Memo;
}

// A part of the program that is loaded when it is first needed.
export class Lazy<T> {
  value: T | undefined;
  constructor(readonly load: () => Promise<T>) {}
}

// undefined until it is there, and if loading fails: the caller shows the plain form.
export function useLazy<T>(lazy: Lazy<T>): T | undefined {
  const [value, setValue] = useState(lazy.value);
  useEffect(() => {
    if (value !== undefined) return undefined;
    let gone = false;
    lazy.load().then(
      (result) => {
        lazy.value = result;
        if (!gone) setValue(() => result);
      },
      (error: unknown) => console.warn('a part of the page could not be loaded', error),
    );
    return () => {
      gone = true;
    };
  }, []);
  return value;
}

// How long a label such as "Copied" stays.
const kLabelMs = 1500;

// [shown, show]: true for a moment after show().
export function useMoment(): [boolean, () => void] {
  const [count, setCount] = useState(0);
  useEffect(() => {
    if (count === 0) return undefined;
    const timer = setTimeout(() => setCount(0), kLabelMs);
    return () => clearTimeout(timer);
  }, [count]);
  return [count > 0, () => setCount((n) => n + 1)];
}
