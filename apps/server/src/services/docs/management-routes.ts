import type { docsApi } from '@plinth/contract/docs.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import type { DocsService } from './service.ts'

export const docsRoutes = (docs: DocsService): Handlers<typeof docsApi, Actor> => ({
  async read({ params, query }, actor, { headers }) {
    // If a credential was sent, the plane has validated it.
    const audience = actor.kind === 'anonymous' ? 'anon' : 'all'
    const isPage = wantsPage(headers.accept)
    const body = await docs.read(params.id.toLowerCase(), audience, query.schema, isPage ? 'page' : 'json')
    return { status: 200, headers: { ...common, ...(isPage ? pageHeaders : jsonHeaders) }, body }
  },
})

/** Browsers list HTML first in Accept. */
const wantsPage = (accept = '') => {
  const types = accept.split(',').map(type => type.split(';')[0]!.trim().toLowerCase())
  const html = types.indexOf('text/html')
  const json = types.findIndex(type => type === 'application/json' || type.endsWith('+json'))
  return html >= 0 && (json < 0 || html < json)
}

const common = { 'cache-control': 'no-store', vary: 'Accept, Authorization' }
const jsonHeaders = { 'content-type': 'application/json; charset=utf-8' }
const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
  'x-content-type-options': 'nosniff',
}
