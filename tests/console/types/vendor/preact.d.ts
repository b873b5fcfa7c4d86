export function h(type: any, props: any, ...children: any[]): any;
export function render(tree: any, parent: Element): void;
export const Fragment: any;
