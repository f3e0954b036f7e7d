import type { PlatformToken } from '@plinth/contract/platform.ts'
import type { Answer, Context } from '../context.ts'
import { expiryTime } from '../expiry.ts'
import { connect, type Platform } from '../platform.ts'
import { clean, fields, minute, table } from '../print.ts'

export async function mint(context: Context): Promise<Answer> {
  const { name, scope, expires } = context.given.values
  const expires_at = expires === undefined ? null : expiryTime(expires, Date.now())
  const body = { name: name!, scope: scope as PlatformToken['scope'], expires_at }
  const minted = await connect(context).tokens.mint({ body })
  return {
    data: minted,
    text: paint =>
      fields(paint, [
        ['id', minted.id],
        ['name', minted.name],
        ['scope', minted.scope],
        ['expires', minted.expires_at === null ? 'never' : minute(minted.expires_at)],
        ['token', minted.token],
      ]),
    hints: ['The token is shown only now. Use it as PLATFORM_TOKEN.'],
  }
}

export async function list(context: Context): Promise<Answer> {
  const tokens = await everyToken(connect(context))
  return {
    data: { tokens, total: tokens.length },
    hints: tokens.length === 0 ? ['No tokens yet: plinth token mint creates one.'] : [],
    text: paint =>
      tokens.length === 0
        ? ''
        : table(paint, ['ID', 'NAME', 'SCOPE', 'STATE', 'LAST USED', 'CREATED'], tokens.map(tokenRow)),
  }
}

const tokenRow = (token: PlatformToken): string[] => [
  token.id,
  token.name,
  token.scope,
  stateOf(token, Date.now()),
  minute(token.last_used_at),
  minute(token.created_at),
]

function stateOf({ revoked_at, expires_at }: PlatformToken, now: number): string {
  if (revoked_at !== null) return `revoked ${minute(revoked_at)}`
  if (expires_at === null) return 'active'
  return Date.parse(expires_at) <= now ? `expired ${minute(expires_at)}` : `until ${minute(expires_at)}`
}

async function everyToken(platform: Platform): Promise<PlatformToken[]> {
  const found: PlatformToken[] = []
  for (;;) {
    const page = await platform.tokens.list({ query: { limit: 100, offset: found.length } })
    found.push(...page.tokens)
    if (page.tokens.length === 0 || found.length >= page.total) return found
  }
}

export async function revoke(context: Context): Promise<Answer> {
  const id = context.given.operands['id']!
  await connect(context).tokens.revoke({ params: { token_id: id } })
  return { data: { id, revoked: true }, text: () => `Revoked ${clean(id)}.` }
}
