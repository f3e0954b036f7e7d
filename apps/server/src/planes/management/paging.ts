import type { PageQuery } from '@plinth/contract/shapes.ts'

export interface Paging {
  limit: number
  offset: number
}

const defaultLimit = 50
const maxLimit = 100

/** A larger limit is clamped, not rejected. */
export const paging = ({ limit = defaultLimit, offset = 0 }: PageQuery): Paging => ({
  limit: Math.min(limit, maxLimit),
  offset,
})
