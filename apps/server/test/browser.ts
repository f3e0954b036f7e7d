// The part of a browser that a sign-in needs: it follows redirects, keeps cookies per origin and submits forms that a page
// submits automatically. It stops at the first URL outside the given origins.

export interface Visit {
  url: URL
  /** A form to post to this URL, as with response_mode=form_post. */
  form: URLSearchParams | undefined
}

export interface BrowseOptions {
  /** Origins or URLs whose origins are visited; the first target outside them is the result. */
  within: readonly string[]
  /** Cookies to start with, sent to every origin. */
  cookies?: Readonly<Record<string, string>>
  /** Fields added to a form before it is sent, as a provider adds them. */
  fields?: Readonly<Record<string, string>>
}

const mostSteps = 20

/** Returns the first visit outside `within`. Throws for a page there that neither redirects nor submits a form. */
export async function browse(
  start: string,
  { within, cookies = {}, fields = {} }: BrowseOptions,
): Promise<Visit> {
  const origins = new Set(within.map(each => new URL(each).origin))
  const jars = new Map<string, Map<string, string>>()
  let visit: Visit = { url: new URL(start), form: undefined }
  for (let step = 0; step < mostSteps; step++) {
    const { url, form } = visit
    if (!origins.has(url.origin)) return visit
    const jar = jars.get(url.origin) ?? new Map(Object.entries(cookies))
    jars.set(url.origin, jar)
    const answer = await fetch(url, {
      redirect: 'manual',
      headers: { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') },
      ...(form && { method: 'POST', body: form }),
    })
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      jar.set(name, value)
    }
    const page = await answer.text()
    const next = nextOf(answer, page, url, fields)
    if (!next) throw new Error(`The browser is stuck at ${url} with ${answer.status}: ${page.slice(0, 500)}`)
    visit = next
  }
  throw new Error(`More than ${mostSteps} steps from ${start}`)
}

function nextOf(
  answer: Response,
  page: string,
  at: URL,
  fields: Readonly<Record<string, string>>,
): Visit | undefined {
  const location = answer.headers.get('location')
  if (location !== null) return { url: new URL(location, at), form: undefined }
  const action = /<form[^>]* action="([^"]+)"/.exec(page)?.[1]
  if (action === undefined) return
  const inputs = [...page.matchAll(/<input[^>]* name="([^"]+)"[^>]* value="([^"]*)"/g)]
  const form = new URLSearchParams(
    inputs.map(([, name, value]): [string, string] => [name!, unescaped(value!)]),
  )
  for (const [name, value] of Object.entries(fields)) form.set(name, value)
  return { url: new URL(unescaped(action), at), form }
}

const unescaped = (html: string) =>
  html
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&')
