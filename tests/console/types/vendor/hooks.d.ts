export function useState<T>(value: T | (() => T)): [T, (value: any) => void];
export function useEffect(effect: () => unknown, inputs?: unknown[]): void;
export function useLayoutEffect(effect: () => unknown, inputs?: unknown[]): void;
export function useRef<T>(value: T): { current: T };
export function useMemo<T>(make: () => T, inputs: unknown[]): T;
export function useCallback<T>(callback: T, inputs: unknown[]): T;
