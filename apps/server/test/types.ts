// Declarations that must not compile. `tsc`, run by types.test.ts, fails if an expected error is missing.
import type { Routes } from '@plinth/contract/route.ts'
import { Type } from '@plinth/contract/type.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'

const reply = Type.Object({ n: Type.Integer() })
const common = { path: '/x', scope: 'admin', plane: 'management', summary: '', reply } as const
const forNobody = { path: '/x', plane: 'data', method: 'GET', summary: '', reply } as const

export const audited = { write: { ...common, method: 'POST', audit: 'x.written' } } as const satisfies Routes

// @ts-expect-error a management write without an audit action
export const unaudited = { write: { ...common, method: 'POST' } } as const satisfies Routes
// @ts-expect-error a data-plane route that does not say who may call it
export const unguarded = { read: forNobody } as const satisfies Routes

export const right: Handlers<typeof audited, unknown> = { write: async () => ({ n: 1 }) }
// @ts-expect-error a declared route without a handler
export const missing: Handlers<typeof audited, unknown> = {}
// @ts-expect-error a reply of another type than declared
export const wrongReply: Handlers<typeof audited, unknown> = { write: async () => ({ n: 'one' }) }
