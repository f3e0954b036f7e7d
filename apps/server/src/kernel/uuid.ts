const form = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Whether the text is a UUID in the usual form. Postgres accepts other forms too, which the platform does not. */
export const isUuid = (text: string): boolean => form.test(text)
