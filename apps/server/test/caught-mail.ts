// Reads mails of an address from the local catch-all and extracts link and code.
import assert from 'node:assert/strict'
import type { TestPlatform } from './harness.ts'

export interface CaughtMail {
  template: string
  text: string
  html: string
  link: string | undefined
  /** The token in the link. */
  token: string | undefined
  code: string | undefined
}

/** Newest first. */
export async function caughtMail(
  platform: TestPlatform,
  projectId: string,
  to: string,
): Promise<CaughtMail[]> {
  const outbox = `/api/v1/projects/${projectId}/email/outbox`
  const { token } = { token: platform.adminToken }
  const { body } = await platform.call('GET', `${outbox}?limit=200`, { token })
  const ids = body.messages
    .filter((each: { to: string }) => each.to === to)
    .map(({ id }: { id: string }) => id)
  const found: CaughtMail[] = []
  for (const id of ids) {
    const { body: message } = await platform.call('GET', `${outbox}/${id}`, { token })
    const link = /https?:\/\/\S+\/verify\?\S+/.exec(message.body_text)?.[0]
    found.push({
      template: message.template,
      text: message.body_text,
      html: message.body_html,
      link,
      token: link === undefined ? undefined : (new URL(link).searchParams.get('token') ?? undefined),
      code: /code: (\d{6})/.exec(message.body_text)?.[1],
    })
  }
  return found
}

/** The newest mail with a link or a code. */
export async function lastLink(platform: TestPlatform, projectId: string, to: string) {
  const mails = await caughtMail(platform, projectId, to)
  const found = mails.find(({ link, code }) => link !== undefined || code !== undefined)
  assert.ok(found, `no mail with a link for ${to}`)
  return { ...found, link: found.link ?? '', token: found.token ?? '', code: found.code ?? '' }
}
