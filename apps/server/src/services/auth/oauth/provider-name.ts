export const providerNames = ['github', 'google', 'apple', 'discord', 'microsoft'] as const
export type ProviderName = (typeof providerNames)[number]

/** The client calls Microsoft by an older name. */
export const providerNamed = (name: string): ProviderName | undefined =>
  name === 'azure' ? 'microsoft' : providerNames.find(each => each === name)
