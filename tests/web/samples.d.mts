// SPDX-License-Identifier: Apache-2.0
export const kMarkdownSample: string;
export const kXssSample: string;
