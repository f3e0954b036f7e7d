// Paging of GET /admin/users as GoTrue does it: page numbers, a Link header and x-total-count.
import { Refusal } from '#src/kernel/errors.ts'
import type { UserFilter } from './admin-store.ts'

export interface Page {
  number: number
  size: number
  filter: UserFilter
}

interface PageQuery {
  page?: string
  per_page?: string
  filter?: string
  sort?: string
}

const defaultSize = 50
const maxSize = 1000

/** An empty value means the default, because the client library always sends all parameters. */
export function pageFrom({ page, per_page, filter, sort }: PageQuery): Page {
  const number = wholeNumber(page, 'page', 1)
  const size = Math.min(wholeNumber(per_page, 'per_page', defaultSize), maxSize)
  const order = /^(?:created_at(?: (asc|desc))?)?$/.exec(sort ?? '')
  if (!order) throw new Refusal('validation_failed', 'sort must be "created_at asc" or "created_at desc"')
  return {
    number,
    size,
    filter: {
      search: filter || undefined,
      isAscending: order[1] === 'asc',
      limit: size,
      offset: (number - 1) * size,
    },
  }
}

function wholeNumber(text: string | undefined, name: string, fallback: number): number {
  if (!text) return fallback
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number < 1)
    throw new Refusal('validation_failed', `${name} must be a whole number from 1`)
  return number
}

/** `page` must be the first parameter of each link, because the client library reads it by position. */
export function pageHeaders({ number, size }: Page, total: number): Record<string, string> {
  const last = Math.max(1, Math.ceil(total / size))
  const link = (page: number, rel: string) => `</admin/users?page=${page}&per_page=${size}>; rel="${rel}"`
  const links = [...(number < last ? [link(number + 1, 'next')] : []), link(last, 'last')]
  return { 'x-total-count': String(total), link: links.join(', ') }
}
